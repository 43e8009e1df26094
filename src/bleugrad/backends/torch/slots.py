"""Slots: one for each occurrence of an n-gram that counts, in shapes that do not depend on the data."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Slots:
    """The L columns of a sentence and order, used as slots: an n-gram with clip c has c of them, for k = 1..c.

    They are side by side. There are always enough, since the clips of a sentence and order sum to L at most.

    ``column`` (B, N, L): the first column of the slot's n-gram. ``used``: whether the slot counts; the others run along
    and are multiplied by 0. ``linked``: whether the slot before it holds k - 1 of the same n-gram.
    """

    column: Tensor
    used: Tensor
    linked: Tensor

    @classmethod
    def of(cls, clips: Tensor, steps: int) -> "Slots":
        """The slots of ``clips`` (B, N, L) for T positions, in which nothing matches more often than T times.

        >>> Slots.of(torch.tensor([[[2, 0, 1, 0]]]), 5).column.tolist()
        [[[0, 0, 2, 3]]]
        """
        ends, columns = clips.clamp(max=steps).cumsum(2), clips.shape[2]
        slot = torch.arange(columns, device=clips.device).expand(clips.shape).contiguous()
        column = torch.searchsorted(ends, slot, right=True).clamp_(max=columns - 1)
        used = slot < ends[..., -1:]
        linked = used & (column == column.roll(1, 2)) & (slot > 0)
        return cls(column, used, linked)
