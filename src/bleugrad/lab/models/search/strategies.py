"""Greedy search, beam search and sampling.

A hypothesis ends with EOS, which is forced at the largest length. Its log-probability includes EOS, and its score is
``log_prob / length ** length_penalty``, where the length includes EOS. PAD and BOS are never generated. A finished
sentence leaves the batch.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from bleugrad.lab.models.draws import draw
from bleugrad.lab.models.protocol import Decoding, Memory
from bleugrad.lab.models.search.beams import Beams, extend
from bleugrad.lab.models.search.hypothesis import Hypothesis, Rules
from bleugrad.lab.special_ids import BOS, EOS

__all__ = ["Hypothesis", "beam", "greedy", "sample"]


def greedy(
    model: Decoding,
    source: Tensor,
    source_lengths: Tensor,
    maximum: int | Tensor,
    minimum: int = 0,
    forbid_unk: bool = False,
) -> list[Hypothesis]:
    """The most likely token at each step; equal to :func:`beam` with ``width`` 1, which explains the arguments."""
    rules = Rules(model.projection(), minimum, forbid_unk)
    return _one_path(model, source, source_lengths, maximum, rules, lambda log_probs: log_probs.argmax(-1))


def sample(
    model: Decoding,
    source: Tensor,
    source_lengths: Tensor,
    maximum: int | Tensor,
    minimum: int = 0,
    temperature: float = 1.0,
    forbid_unk: bool = False,
    generator: torch.Generator | None = None,
) -> list[Hypothesis]:
    """Sample one translation per sentence. See :func:`beam` for the other arguments.

    Logits are divided by ``temperature`` for the draw, but ``log_prob`` is that of the model. ``generator`` is on the
    model's device.
    """
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; expected more than 0")
    rules = Rules(model.projection(), minimum, forbid_unk)
    choose = partial(draw, temperature=temperature, generator=generator)
    return _one_path(model, source, source_lengths, maximum, rules, choose)


@torch.no_grad()
def beam(
    model: Decoding,
    source: Tensor,
    source_lengths: Tensor,
    width: int = 5,
    maximum: int | Tensor = 100,
    minimum: int = 0,
    length_penalty: float = 1.0,
    n_best: int = 1,
    forbid_unk: bool = False,
) -> list[list[Hypothesis]]:
    """The ``n_best`` hypotheses of each sentence by beam search, the best first; fewer if no more were found.

    A beam has ``width`` slots. At each step the most likely continuations of the open hypotheses of a sentence fill the
    free slots. Those that end with EOS keep their slot. A sentence is done when no slot is free. If there are as many
    slots as translations, the search is exhaustive.

    Args:
        model: in any mode; dropout is off.
        source: (B, S) ids.
        source_lengths: (B,).
        width: slots of the beam.
        maximum: largest number of tokens without EOS, or (B,) one number per sentence.
        minimum: smallest number of tokens.
        length_penalty: 0 ranks by log-probability, 1 by its mean over tokens.
        n_best: at most ``width``.
        forbid_unk: never generate UNK.
    """
    if width < 1:
        raise ValueError(f"width is {width}; expected at least 1")
    if not 1 <= n_best <= width:
        raise ValueError(f"n_best is {n_best}; expected 1 to width = {width}")
    memory, limits = _start(model, source, source_lengths, maximum, minimum)
    found: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    running, rules = Beams.first(memory, limits, width), Rules(model.projection(), minimum, forbid_unk)
    while len(running):
        running = extend(model, running, rules, length_penalty, found)
    if not all(found):
        raise ValueError("the model gives no token a probability; expected finite parameters and a word to choose")
    ranked = [sorted(each, key=lambda hypothesis: -hypothesis.score) for each in found]
    return [each[:n_best] for each in ranked]


@torch.no_grad()
def _one_path(
    model: Decoding,
    source: Tensor,
    source_lengths: Tensor,
    maximum: int | Tensor,
    rules: Rules,
    choose: Callable[[Tensor], Tensor],
) -> list[Hypothesis]:
    memory, limits = _start(model, source, source_lengths, maximum, rules.minimum)
    device = source.device
    found: list[Hypothesis | None] = [None] * len(source)
    sentences, state = torch.arange(len(source), device=device), memory.state
    tokens = torch.full((len(source), 1), BOS, device=device)
    log_probs = torch.zeros(len(source), device=device)
    while len(sentences):
        length = tokens.shape[1] - 1
        hidden, state = model.step(memory, state, tokens[:, -1])
        next_log_probs = rules.log_probs(hidden, length, limits)
        token = choose(next_log_probs)
        log_probs = log_probs + next_log_probs.gather(1, token[:, None])[:, 0]
        ended = token == EOS
        for row in ended.nonzero()[:, 0].tolist():
            log_prob = float(log_probs[row])
            found[int(sentences[row])] = Hypothesis(tokens[row, 1:].tolist(), log_prob, log_prob / (length + 1))
        tokens = torch.cat([tokens, token[:, None]], 1)
        if ended.any():
            rows = (~ended).nonzero()[:, 0]
            memory, state, limits = memory.select(rows), state.select(rows), limits[rows]
            sentences, tokens, log_probs = sentences[rows], tokens[rows], log_probs[rows]
    return [hypothesis for hypothesis in found if hypothesis is not None]


def _start(
    model: Decoding, source: Tensor, source_lengths: Tensor, maximum: int | Tensor, minimum: int
) -> tuple[Memory, Tensor]:
    limits = torch.as_tensor(maximum, device=source.device).expand(len(source))
    if minimum < 0:
        raise ValueError(f"minimum is {minimum}; expected at least 0")
    if len(limits) and int(limits.min()) < minimum:
        raise ValueError(f"maximum is {int(limits.min())}; expected at least minimum = {minimum}")
    training = model.training
    model.eval()
    try:
        return model.encode(source, source_lengths), limits
    finally:
        model.train(training)
