"""Clips and self-overlaps of n-grams by comparing all pairs of columns: few operations, O(B N L^2) bytes."""

import torch
from torch import Tensor

from bleugrad.backends.operation import Outputs


def forward(keep: bool, ids: Tensor, lengths: Tensor, max_order: int) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.ngram_patterns`. O(B N L^2) time."""
    batch, references, width = ids.shape
    flat, columns = ids.flatten(1), references * width
    column, orders = (torch.arange(size, device=ids.device) for size in (columns, max_order))
    windows = torch.nn.functional.pad(flat, (0, max_order - 1)).unfold(1, max_order, 1).transpose(1, 2)  # (B, N, L)
    fits = ((lengths[..., None] - column[:width]).flatten(1)[:, None] > orders[:, None]).unsqueeze(2)
    same = (windows[..., None] == windows[:, :, None]).cumprod(1, dtype=torch.uint8)  # (B, N, L, L): of all n tokens
    overlaps = torch.zeros(max_order - 1, batch, max_order, columns, device=ids.device, dtype=torch.bool)
    for shift in range(1, min(max_order, columns)):  # an n-gram that overlaps itself has n - d tokens in common
        overlaps[shift - 1, :, shift:, :-shift] = same.diagonal(shift, 2, 3)[:, :-shift]
    same = same * fits
    counts = same.view(batch, max_order, columns, references, width).sum(4)
    most = counts.squeeze(3) if references == 1 else counts.amax(3)
    return (most * (same.tril(-1).amax(3) < fits.squeeze(2)), overlaps), None
