"""The decoder of a Transformer: layers that read earlier positions and the source, with a cache of keys and values."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bleugrad.lab.models.protocol import mix_rows
from bleugrad.lab.models.transformer import Attention, attend


@dataclass(frozen=True)
class KeyValueState:
    """Keys and values of the positions so far, (t, B, 2H) of each layer; all rows have t ``positions``.

    With room there are t + 1 places, the last of which the next step fills.
    """

    layers: tuple[Tensor, ...]
    positions: int = 0

    def select(self, rows: Tensor) -> "KeyValueState":
        """The state with row ``rows[i]`` at i."""
        if not self.positions:
            return KeyValueState(tuple(layer.new_empty(0, len(rows), layer.shape[2]) for layer in self.layers))
        return KeyValueState(tuple(layer.index_select(1, rows) for layer in self.layers), self.positions)

    def mixed(self, weights: Tensor) -> "KeyValueState":
        """The state with the keys and values of each sentence's rows mixed by weights (B, W, W), at every position."""
        return KeyValueState(tuple(mix_rows(layer, weights) for layer in self.layers), self.positions)

    def select_with_room(self, rows: Tensor) -> "KeyValueState":
        """:meth:`select` for a step without gradient, which then needs no second copy of the cache."""
        if not self.positions or torch.is_grad_enabled():
            return self.select(rows)
        layers = []
        for layer in self.layers:
            places = layer.new_empty(self.positions + 1, len(rows), layer.shape[2])
            torch.index_select(layer, 1, rows, out=places[:-1])
            layers.append(places)
        return KeyValueState(tuple(layers), self.positions)


@dataclass(frozen=True)
class KeyValueMemory:
    """Encoded sources as the attention of each decoder layer reads them."""

    keys: tuple[Tensor, ...]  # (B, heads, S, H / heads) of each layer
    values: tuple[Tensor, ...]
    mask: Tensor | None  # (B, 1, 1, S), True at tokens; None if there is no padding

    def __len__(self) -> int:
        return self.keys[0].shape[0]

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.keys[0].device

    @property
    def state(self) -> KeyValueState:
        """No positions."""
        rows, heads, _, size = self.keys[0].shape
        return KeyValueState(tuple(key.new_empty(0, rows, 2 * heads * size) for key in self.keys))

    def select(self, rows: Tensor) -> "KeyValueMemory":
        """The memory with sentence ``rows[i]`` at i."""
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        keys, values = (tuple(one.index_select(0, rows) for one in side) for side in (self.keys, self.values))
        return KeyValueMemory(keys, values, mask)


@dataclass(frozen=True)
class LayerNoise:
    """Factors of dropout, 0 or 1 / (1 - dropout): (P, B, T, H) of the embeddings and of what each part adds."""

    factors: Tensor | None = None

    def at(self, step: int) -> "LayerNoise":
        """The noise of one step."""
        return self.until(step, step + 1)

    def until(self, first: int, last: int) -> "LayerNoise":
        """The noise of the steps from ``first``, before ``last``."""
        return self if self.factors is None else LayerNoise(self.factors[:, :, first:last])

    def drop(self, place: int, values: Tensor) -> Tensor:
        """The values (B, T, H) of a place with dropout."""
        return values if self.factors is None else values * self.factors[place]


class CachedAttention(Attention):
    """Attention with keys and values that were computed before."""

    def in_heads(self, states: Tensor) -> Tensor:
        """(B, T, H) as (B, heads, T, H / heads)."""
        apart: Tensor = states.unflatten(-1, (self.heads, -1))
        return apart.transpose(1, 2)

    def attend(self, queries: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        """What queries (B, T, H) read from keys and values in heads, (B, T, H)."""
        query = self.in_heads(self.query(queries))
        read = attend(query, key, value, mask, causal)
        joined: Tensor = self.output(read.transpose(1, 2).flatten(2))
        return joined


class DecoderLayer(nn.Module):
    """Attention to earlier positions, attention to the source, and feed-forward, each after a normalisation.

    Dropout acts on what each part adds.
    """

    PARTS = 3

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.own, self.own_norm = CachedAttention(width, heads), nn.LayerNorm(width)
        self.reading, self.reading_norm = CachedAttention(width, heads), nn.LayerNorm(width)
        self.inner, self.outer, self.inner_norm = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width)

    def read(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of encoded sources (B, S, H), in heads."""
        key, value = self.reading.key_value(encoded).chunk(2, -1)
        return self.reading.in_heads(key), self.reading.in_heads(value)

    def forward(
        self,
        states: Tensor,
        past: Tensor,
        first: int,
        memory: tuple[Tensor, Tensor],
        mask: Tensor | None,
        noise: LayerNoise,
        place: int,
    ) -> tuple[Tensor, Tensor]:
        """States (B, T, H) after this layer, and the keys and values (t + T, B, 2H) of all positions; ``first`` is t.

        ``past`` (t, B, 2H) are those of the positions before, with or without room; T is 1 if there are any. ``place``
        is the first of this layer in the noise.
        """
        normal = self.own_norm(states)
        known = _appended(past, first, self.own.key_value(normal).transpose(0, 1))
        key, value = (self.own.in_heads(one.transpose(0, 1)) for one in known.chunk(2, -1))
        read = self.own.attend(normal, key, value, None, causal=states.shape[1] > 1)
        states = states + noise.drop(place, read)
        queries = self.reading_norm(states)
        of_sentences = queries.view(len(memory[0]), -1, queries.shape[-1]) if len(queries) else queries
        read = self.reading.attend(of_sentences, *memory, mask).view_as(queries)
        states = states + noise.drop(place + 1, read)
        inner = F.relu(self.inner(self.inner_norm(states)))
        return states + noise.drop(place + 2, self.outer(inner)), known


def _appended(past: Tensor, first: int, new: Tensor) -> Tensor:
    """The ``first`` places of the cache and the new ones, in the room of the cache if it has some."""
    if first == 0:
        return new
    if len(past) == first:
        return torch.cat([past, new])
    past[first:] = new
    return past
