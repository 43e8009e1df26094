"""The steps that every translation model has: encode the source, decode all positions, project to logits."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bleugrad.models.config import ModelConfig

ALIGNED = 16
"""float32 logits in 64 bytes."""


class TranslationModel(nn.Module):
    """A model of one kind; ``source_size`` and ``target_size`` (V) are the sizes of the vocabularies.

    ``encode(source, source_lengths)`` reads sources (B, S), ``decode(memory, ...)`` returns the hidden states of all
    positions, and :meth:`project` their logits with the layer ``output``. An autoregressive model decodes given inputs
    and has a ``step`` for search, see :class:`bleugrad.models.attention_lstm.AttentionLSTM`. A one-pass model decodes
    from the source alone and translates without a search, see :class:`bleugrad.models.one_pass.OnePassModel`.
    """

    output: nn.Linear

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config, self.source_size, self.target_size = config, source_size, target_size

    def encode(self, source: Tensor, source_lengths: Tensor) -> Any:
        """Encode sources (B, S), padded on the right with any id; ``source_lengths`` (B,) are at least 1."""
        raise NotImplementedError

    def project(self, hidden: Tensor) -> Tensor:
        """Logits (..., V) of hidden states (..., H)."""
        return F.linear(hidden, self.output.weight, self.output.bias)

    def projection(self) -> Callable[[Tensor], Tensor]:
        """:meth:`project` for many calls without gradient and with constant parameters.

        Rows of logits are padded to a multiple of ``ALIGNED`` with tokens of probability 0: on a CPU, matrix products
        with rows of odd length take up to 1.5 times as long.
        """
        spare = -self.target_size % ALIGNED
        weight = F.pad(self.output.weight.detach(), (0, 0, 0, spare))
        bias = F.pad(self.output.bias.detach(), (0, spare), value=-torch.inf)
        return lambda hidden: F.linear(hidden, weight, bias)


def check_source(source: Tensor, lengths: Tensor) -> None:
    """Raise unless ``source`` is (B, S) ids and ``lengths`` are one per sentence, from 1 to S."""
    if source.dim() != 2 or source.is_floating_point():
        raise ValueError(f"source is {source.dtype} {tuple(source.shape)}; expected token ids (B, S)")
    if lengths.shape != source.shape[:1]:
        raise ValueError(f"source_lengths is {tuple(lengths.shape)}; expected one length per sentence ({len(source)},)")
    if len(source) and not 1 <= int(lengths.min()) <= int(lengths.max()) <= source.shape[1]:
        raise ValueError(
            f"source_lengths is from {int(lengths.min())} to {int(lengths.max())}; expected 1 to {source.shape[1]}"
        )
