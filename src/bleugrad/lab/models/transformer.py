"""Transformer layers: attention and feed-forward, each after a normalisation and added to its input."""

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bleugrad.lab.models.dropout import Dropout

CODES = 64
"""Positions whose codes are kept together."""


class Attention(nn.Module):
    """Attention of several heads: each of ``queries`` (B, T, H) reads from ``states`` (B, S, H)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.output = nn.Linear(width, width), nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)

    def forward(self, queries: Tensor, states: Tensor, mask: Tensor | None) -> Tensor:
        """The states read, (B, T, H). ``mask`` (B, 1, 1, S) is True at those that count, at least one; None for all."""
        size = (self.heads, queries.shape[-1] // self.heads)
        query = self.query(queries).view(*queries.shape[:2], *size).transpose(1, 2)
        key, value = self.key_value(states).view(*states.shape[:2], 2, *size).permute(2, 0, 3, 1, 4)
        joined: Tensor = self.output(attend(query, key, value, mask).transpose(1, 2).flatten(2))
        return joined


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
    """Scaled dot-product attention, of bfloat16 in float32 on CPUs, whose backward pass is seven times as fast."""
    if query.device.type != "cpu" or query.dtype != torch.bfloat16:
        return F.scaled_dot_product_attention(query, key, value, mask, is_causal=causal)
    with torch.autocast("cpu", enabled=False):
        read = F.scaled_dot_product_attention(query.float(), key.float(), value.float(), mask, is_causal=causal)
        return read.to(query.dtype)


class Layer(nn.Module):
    """One layer: attention to the layer's own positions, to a memory if it ``reads`` one, and feed-forward.

    Dropout acts on what each part adds. The output at a position does not depend on padding.
    """

    def __init__(self, width: int, heads: int, inner: int, dropout: float, reads: bool = False) -> None:
        super().__init__()
        self.own, self.own_norm = Attention(width, heads), nn.LayerNorm(width)
        self.reading = Attention(width, heads) if reads else None
        self.reading_norm = nn.LayerNorm(width) if reads else None
        self.inner, self.outer, self.inner_norm = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def forward(
        self, states: Tensor, mask: Tensor | None, memory: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """States (B, T, H) after this layer; masks are those of :class:`Attention`."""
        normal = self.own_norm(states)
        states = states + self.dropout(self.own(normal, normal, mask))
        if self.reading is not None and self.reading_norm is not None:
            states = states + self.dropout(self.reading(self.reading_norm(states), memory, memory_mask))
        inner = self.inner(self.inner_norm(states)).relu_()
        after: Tensor = states + self.dropout(self.outer(inner))
        return after


def position_codes(positions: int, like: Tensor) -> Tensor:
    """Sines and cosines (T, H) that number the positions, as in the first Transformer; H is that of ``like``."""
    return _codes(-(-positions // CODES) * CODES, like.shape[-1], like.dtype, like.device)[:positions]


@lru_cache(maxsize=16)
def _codes(positions: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # a cached tensor of inference mode could not be used in training
        rates = torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width)
        angles = torch.arange(positions)[:, None] * rates.exp()  # on the CPU: not every device has float64
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width].to(device, dtype)
