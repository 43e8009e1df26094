"""Dropout of the decoder, drawn once for all steps, so that two passes drop the same units."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StepNoise:
    """Factors of one step, 0 or 1 / (1 - dropout): (B, E) of tokens, (layers, B, H) of layers; None for no dropout.

    The last layer is the attentional vector.
    """

    tokens: Tensor | None = None
    layers: Tensor | None = None


@dataclass(frozen=True)
class Noise:
    """Factors of all steps, (T, B, E) and (T, layers, B, H)."""

    tokens: Tensor | None = None
    layers: Tensor | None = None

    @classmethod
    def draw(cls, dropout: float, steps: int, rows: int, width: int, layers: int, hidden: int, like: Tensor) -> "Noise":
        """Noise with the device and dtype of ``like``; none if ``dropout`` is 0."""
        if dropout == 0:
            return cls()
        kept = 1 - dropout
        draws = [
            torch.empty(shape, dtype=like.dtype, device=like.device).bernoulli_(kept).div_(kept)
            for shape in ((steps, rows, width), (steps, layers, rows, hidden))
        ]
        return cls(*draws)

    def at(self, step: int) -> StepNoise:
        """The noise of one step."""
        if self.tokens is None or self.layers is None:
            return StepNoise()
        return StepNoise(self.tokens[step], self.layers[step])
