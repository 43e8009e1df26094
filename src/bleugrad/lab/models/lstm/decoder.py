"""The decoder: LSTM layers with multiplicative attention and input feeding, its memory, state and dropout."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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


class LSTMDecoder(nn.Module):
    """LSTM layers whose inputs are the previous token and the previous attentional vector.

    One step, for the embedded previous token e, with Luong's multiplicative attention::

        h, c        = LSTM([e, previous attentional], h, c)          upper layers read the h below
        weights     = softmax over source positions of keys · h,      keys = W_key encoded
        attentional = tanh(W_context (weights · encoded) + W_hidden h)

    ``W_context`` is applied to the encoded source once, before all steps, because the weighted sum is linear. With
    teacher forcing, the gates of the tokens are one product for all steps. ``width`` is that of embedded tokens,
    ``hidden`` is H, ``encoded`` the width of the encoder's outputs.
    """

    def __init__(self, width: int, hidden: int, layers: int, encoded: int) -> None:
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.token_gates = nn.Linear(width, 4 * hidden)
        self.feeding_gates = nn.Linear(2 * hidden, 4 * hidden, bias=False)
        self.upper_gates = nn.ModuleList(nn.Linear(2 * hidden, 4 * hidden) for _ in range(layers - 1))
        self.attention_key = nn.Linear(encoded, hidden, bias=False)
        self.attention_context = nn.Linear(encoded, hidden, bias=False)
        self.attention_hidden = nn.Linear(hidden, hidden, bias=False)
        self.bridge = nn.Linear(encoded, layers * hidden)

    def read(self, encoded: Tensor, cells: Tensor, mask: Tensor) -> LSTMMemory:
        """The memory of encoded sources (B, S, 2H), their last cells (B, 2H) and mask (B, S)."""
        cell = self.bridge(cells).view(-1, self.layers, self.hidden).transpose(0, 1)
        state = LSTMState(cell.tanh(), cell, cell.new_zeros(cell.shape[1:]))
        keys, values = self.attention_key(encoded), self.attention_context(encoded)
        bias = torch.zeros_like(mask, dtype=keys.dtype).masked_fill_(~mask, torch.finfo(keys.dtype).min)
        return LSTMMemory(keys, values, bias[:, None], state)

    def step(
        self,
        memory: LSTMMemory,
        state: LSTMState,
        token_gates: Tensor,
        noise: Tensor | None = None,
        origins: Tensor | None = None,
    ) -> LSTMState:
        """The state after a step; its ``attentional`` is the input of the output projection.

        ``token_gates`` (B, 4H) is the part of the previous tokens in the gates of the first layer, ``noise``
        (layers, B, H) the dropout of the inputs of upper layers and of the attentional vector. For the others, see
        :meth:`bleugrad.lab.models.protocol.AutoregressiveModel.step`.
        """
        fed = self.feeding_gates(torch.cat([state.attentional, state.hidden[0]], -1))
        if origins is not None:
            fed, state = fed.index_select(0, origins), state.select(origins)
        gates = token_gates + fed
        hidden: list[Tensor] = []
        cell: list[Tensor] = []
        for layer in range(self.layers):
            if layer > 0:
                below = hidden[-1] if noise is None else hidden[-1] * noise[layer - 1]
                gates = self.upper_gates[layer - 1](torch.cat([below, state.hidden[layer]], -1))
            new_hidden, new_cell = _lstm_cell(gates, state.cell[layer])
            hidden.append(new_hidden)
            cell.append(new_cell)
        attentional = self._attend(memory, hidden[-1])
        if noise is not None:
            attentional = attentional * noise[-1]
        return LSTMState(torch.stack(hidden), torch.stack(cell), attentional)

    def _attend(self, memory: LSTMMemory, hidden: Tensor) -> Tensor:
        queries = hidden.view(len(memory), len(hidden) // max(len(memory), 1), self.hidden)
        weights = F.softmax(torch.baddbmm(memory.bias, queries, memory.keys.transpose(1, 2)), -1)
        context = torch.bmm(weights, memory.values).view_as(hidden)
        return torch.tanh(context + self.attention_hidden(hidden))


def _lstm_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    opened, update = gates.split([3 * cell.shape[-1], cell.shape[-1]], -1)
    entering, kept, shown = opened.sigmoid().chunk(3, -1)
    new_cell = kept * cell + entering * update.tanh()
    return shown * new_cell.tanh(), new_cell
