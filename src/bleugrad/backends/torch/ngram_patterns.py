"""Clips and self-overlaps of n-grams by comparing all pairs of columns: few operations, O(B L^2) bytes."""

import torch
from torch import Tensor

from bleugrad.backends.operation import Outputs


def forward(keep: bool, ids: Tensor, lengths: Tensor, max_order: int) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.ngram_patterns`. O(B N L^2) time."""
    batch, references, width = ids.shape
    flat, columns = ids.flatten(1), references * width
    padded = torch.nn.functional.pad(flat, (0, max_order))
    position, column = torch.arange(width, device=ids.device), torch.arange(columns, device=ids.device)
    left = (lengths[..., None] - position).flatten(1)  # tokens up to the end of the reference
    equal, earlier = flat[:, :, None] == flat[:, None, :], column[:, None] > column
    same, clips, runs = equal, [], torch.ones_like(flat, dtype=torch.bool)
    overlaps = torch.zeros(max_order - 1, batch, max_order, columns, dtype=torch.bool, device=ids.device)
    for order in range(1, max_order + 1):
        if order > 1:
            nexts = padded[:, order - 1 : order - 1 + columns]
            same = same & (nexts[:, :, None] == nexts[:, None, :])
        fits = left >= order
        counted = same & fits[:, None, :]
        most = counted.view(batch, columns, references, width).sum(3).amax(2)
        first = fits & ~(counted & earlier).any(2)
        clips.append(torch.where(first, most, 0))
    inside = column + torch.arange(1, max_order + 1, device=ids.device)[:, None] <= columns
    for shift in range(1, min(max_order, columns)):
        repeats = padded[:, :-shift] == padded[:, shift:]
        runs = repeats[:, :columns]
        for order in range(shift + 1, max_order + 1):
            if order > shift + 1:
                runs = runs & repeats[:, order - shift - 1 : order - shift - 1 + columns]
            overlaps[shift - 1, :, order - 1] = runs & inside[order - 1]
    return (torch.stack(clips, 1), overlaps), None
