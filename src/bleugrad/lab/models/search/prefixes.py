"""Beam search for CTC frames: the outputs with the highest probability, summed over the frames that lead to them."""

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

Prefix = tuple[int, ...]


def prefix_beam(log_probs: Tensor, blank: int, width: int, longest: int) -> list[tuple[Prefix, float]]:
    """At most ``width`` outputs of frames (T, V) and their log-probabilities, the most likely first.

    An output is what is left after equal neighbours are merged and blanks removed. Its probability is the sum over all
    sequences of symbols that lead to it. Those that left the beam are missing from the sum, so log-probabilities are
    lower bounds, and exact if nothing left the beam. At each frame an output is extended by the ``width`` most likely
    symbols, up to ``longest`` tokens. The method is that of Hannun et al., *First-Pass Large Vocabulary Continuous
    Speech Recognition using Bi-Directional Recurrent DNNs* (2014), without a language model. O(T width^2) steps.

    Example:
        >>> import torch
        >>> prefix_beam(torch.tensor([[0.6, 0.4], [0.6, 0.4]]).log(), blank=0, width=2, longest=9)[0][0]
        (1,)
    """
    beam: dict[Prefix, tuple[float, float]] = {(): (0.0, -math.inf)}  # ended by blank, and by the last token
    best = log_probs.topk(min(width, log_probs.shape[1]), 1).indices.tolist()
    for row, symbols in zip(log_probs.double().cpu().numpy(), best, strict=True):
        found: dict[Prefix, list[float]] = {}
        for prefix, (by_blank, by_token) in beam.items():
            either = float(np.logaddexp(by_blank, by_token))
            _add(found, prefix, 0, either + row[blank])
            if prefix:
                _add(found, prefix, 1, by_token + row[prefix[-1]])
            if len(prefix) == longest:
                continue
            for symbol in symbols:
                if symbol != blank:
                    before = by_blank if prefix and symbol == prefix[-1] else either
                    _add(found, (*prefix, symbol), 1, before + row[symbol])
        ranked = sorted(found.items(), key=lambda one: _total(one[1]), reverse=True)
        beam = {prefix: (ends[0], ends[1]) for prefix, ends in ranked[:width] if _total(ends) > -math.inf}
    return [(prefix, _total(ends)) for prefix, ends in beam.items()]


def _add(found: dict[Prefix, list[float]], prefix: Prefix, place: int, log_prob: float) -> None:
    ends = found.setdefault(prefix, [-math.inf, -math.inf])
    ends[place] = float(np.logaddexp(ends[place], log_prob))


def _total(ends: Sequence[float]) -> float:
    return float(np.logaddexp(ends[0], ends[1]))
