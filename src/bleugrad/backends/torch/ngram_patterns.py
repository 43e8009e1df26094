"""Clips and self-overlaps of n-grams by comparing all pairs of columns: few operations, O(B N L^2) bytes."""

import torch
from torch import Tensor

from bleugrad.backends.operation import Outputs


def forward(keep: bool, ids: Tensor, lengths: Tensor, max_order: int) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.ngram_patterns`. O(B N L^2) time."""
    batch, references, width = ids.shape
    flat, columns = ids.flatten(1), references * width
    column, orders = (torch.arange(size, device=ids.device) for size in (columns, max_order + 1))
    tokens = torch.nn.functional.pad(flat, (0, max_order)).unfold(1, max_order, 1)[:, :columns]  # (B, L, N)
    fits = (lengths[..., None] - column[:width]).flatten(1)[..., None] >= orders[1:]
    equal = _runs(tokens[:, :, None] == tokens[:, None]) * fits[:, None]  # (B, L, L, N)
    most = equal.view(batch, columns, references, width, max_order).sum(3).amax(2)
    again = (equal * (column[:, None] > column)[..., None]).amax(2)
    clips = (most * (fits & (again == 0))).transpose(1, 2).contiguous()
    overlaps = torch.zeros(max_order - 1, batch, max_order, columns, dtype=torch.bool, device=ids.device)
    for shift in range(1, max_order):
        same = _runs(tokens[..., shift:] == tokens[..., :-shift])
        overlaps[shift - 1, :, shift:] = same.transpose(1, 2)
    return (clips, overlaps & (column + orders[1:, None] <= columns)), None


def _runs(equal: Tensor) -> Tensor:
    """1 where all entries of the last axis so far are True."""
    return equal.cumprod(-1, dtype=torch.uint8)
