"""All n-grams in one recursion whose shapes do not depend on the data, for devices that are not waited for.

The clips of a sentence and order sum to L at most. So its L columns are *slots*: an n-gram with clip c has c of them
side by side, one for each state k = 1..c. N-grams of tokens go through the tree of ``transfer_tree.py``. N-grams of
words look back over as many tokens as they have, which has no small bound: they go through ``renewal_blocks.py``.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.torch.renewal_blocks import RenewalBlocks
from bleugrad.backends.torch.transfer_tree import TransferTree
from bleugrad.backends.torch.unit_windows import UnitWindows


@dataclass(frozen=True)
class Slots:
    """``pattern`` (B, N, L): the column of each slot's n-gram. ``earlier``: its slots before this one, k - 1.

    ``used``: whether the slot counts. ``weight``: c - k + 1. Where a slot is not used the last two are 0.
    """

    pattern: Tensor
    earlier: Tensor
    used: Tensor
    weight: Tensor

    @classmethod
    def of(cls, clips: Tensor, steps: int) -> "Slots":
        """The slots of ``clips`` (B, N, L) for T positions, in which nothing matches more often than T times."""
        columns = clips.shape[2]
        clips = clips if columns <= steps else clips.clamp(max=steps)
        ends = clips.cumsum(2)
        slot = torch.arange(columns, device=clips.device).expand(clips.shape).contiguous()
        pattern = torch.searchsorted(ends, slot, right=True).clamp_(max=columns - 1)
        weight = (ends.gather(2, pattern) - slot).clamp_(min=0)
        used = weight > 0
        return cls(pattern, (clips.gather(2, pattern) - weight) * used, used, weight)


class SlotRun:
    """The recursion, run forward.

    ``probs`` (T, B, N, L, N): the probability that the last j units of a slot's n-gram end at e, where j = n, or the
    n-gram equals itself shifted by j units; 0 elsewhere. ``own`` (N, 1, N) is True at j = n. Slots that are not used
    run along; their matches are multiplied by 0.
    """

    def __init__(self, inputs: Any) -> None:
        units, self.alive, self.opening, clips, overlaps, spans = inputs
        if spans is None and self.opening is not None:
            spans = clips.new_ones(units.shape[1:])
        steps, batch, columns = units.shape
        orders = clips.shape[1]
        self.slots = slots = Slots.of(clips, steps)
        self.windows = UnitWindows(units, spans, orders)
        order = torch.arange(orders, device=units.device)
        self.own = (order == order[:, None])[:, None]
        pattern = slots.pattern[..., None]
        shifted = overlaps.permute(1, 2, 3, 0).gather(2, pattern.expand(-1, -1, -1, orders - 1))
        self.active = torch.nn.functional.pad(shifted, (0, 1)) | self.own
        self.last = (pattern + order[:, None, None]).clamp(max=columns - 1).view(batch, -1, 1)
        self.index = self.last.expand(steps, -1, -1, orders)
        self.probs = self.windows.probs.gather(2, self.index).view(steps, *self.active.shape) * self.active
        if spans is None and self.opening is None:
            self.recursion: Any = TransferTree(self.probs, self.own, self.alive, slots.earlier, slots.weight)
        else:
            lags = self.windows.offsets[..., 1:].gather(1, self.last.expand(-1, -1, orders)).view(self.active.shape)
            self.recursion = RenewalBlocks(self.probs, lags, self.alive, self.opening, slots.earlier, slots.weight)

    def matches(self) -> Tensor:
        """The new matches, (T, B, N)."""
        moves: Tensor = self.recursion.moves
        return (moves * self.slots.weight).sum(3)

    def backward(self, grad: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients of the units, of ``alive`` and of ``opening``."""
        of_probs, of_alive, of_opening = self.recursion.backward(grad[..., None] * self.slots.weight)
        of_windows = torch.zeros_like(self.windows.probs)
        of_windows.scatter_add_(2, self.index, (of_probs * self.active).flatten(2, 3))
        return self.windows.backward(of_windows), of_alive, of_opening
