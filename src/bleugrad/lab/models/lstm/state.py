"""LSTMMemory, state and dropout of the LSTM decoder: the encoded sources, and what one step passes to the next."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.lab.models.protocol import mix_rows


@dataclass(frozen=True)
class LSTMState:
    """State of B rows before a step, with the hypotheses of a sentence side by side.

    Outputs and cells of the LSTM layers (layers, B, H), and the previous attentional vector (B, H).
    """

    hidden: Tensor
    cell: Tensor
    attentional: Tensor

    def select(self, rows: Tensor) -> "LSTMState":
        """The state with row ``rows[i]`` at i."""
        return LSTMState(
            self.hidden.index_select(1, rows), self.cell.index_select(1, rows), self.attentional.index_select(0, rows)
        )

    def mixed(self, weights: Tensor) -> "LSTMState":
        """The state with the rows of each sentence mixed by weights (B, W, W)."""
        hidden, cell = (mix_rows(part, weights) for part in (self.hidden, self.cell))
        return LSTMState(hidden, cell, mix_rows(self.attentional[None], weights)[0])


@dataclass(frozen=True)
class LSTMMemory:
    """Encoded source sentences, as attention reads them, and the state of the decoder before its first step."""

    keys: Tensor  # (B, S, H), compared with the decoder's hidden state
    values: Tensor  # (B, S, H), the part of each position in the attentional vector before its nonlinearity
    bias: Tensor  # (B, 1, S), added to the attention scores: 0 at tokens, the lowest finite number at padding
    state: LSTMState

    def __len__(self) -> int:
        return self.bias.shape[0]

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.bias.device

    @property
    def mask(self) -> Tensor:
        """(B, S) bool, True at tokens, False at padding."""
        return self.bias[:, 0] == 0

    def select(self, rows: Tensor) -> "LSTMMemory":
        """The memory with sentence ``rows[i]`` at i."""
        return LSTMMemory(
            self.keys.index_select(0, rows),
            self.values.index_select(0, rows),
            self.bias.index_select(0, rows),
            self.state.select(rows),
        )


@dataclass(frozen=True)
class LSTMNoise:
    """Factors of dropout, 0 or 1 / (1 - dropout), drawn once for all steps, so that two passes drop the same units.

    (T, B, E) of tokens and (T, layers, B, H) of layers, the last of which is the attentional vector; without T for one
    step, None for no dropout.
    """

    tokens: Tensor | None = None
    layers: Tensor | None = None

    def at(self, step: int) -> "LSTMNoise":
        """The noise of one step."""
        if self.tokens is None or self.layers is None:
            return self
        return LSTMNoise(self.tokens[step], self.layers[step])
