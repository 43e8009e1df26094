"""Clips and self-overlaps of n-grams by comparing all pairs of columns: few operations, O(B N L^2) bytes."""

import torch
from torch import Tensor

from bleugrad.backends.operation import Outputs


def forward(keep: bool, ids: Tensor, lengths: Tensor, max_order: int) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.ngram_patterns`. O(B N L^2) time."""
    batch, references, width = ids.shape
    flat, columns, unfolded = ids.flatten(1), references * width, (1, max_order, 1)
    column, orders = (torch.arange(size, device=ids.device) for size in (columns, max_order))
    padded = torch.nn.functional.pad(flat, (0, 2 * max_order))
    tokens = padded.unfold(*unfolded)  # (B, L + N + 1, N)
    windows = tokens[:, :columns].transpose(1, 2)
    fits = ((lengths[..., None] - column[:width]).flatten(1)[:, None] > orders[:, None]).unsqueeze(2)
    equal = _runs(windows[..., None] == windows[:, :, None]) * fits  # (B, N, L, L)
    counts = equal.view(batch, max_order, columns, references, width).sum(4)
    most = counts.squeeze(3) if references == 1 else counts.amax(3)
    clips = most * (equal.tril(-1).amax(3) < fits.squeeze(2))
    later = tokens.unfold(*unfolded)[:, 1 : columns + 1, :, : max_order - 1]  # (B, L, N, D): the tokens d columns on
    same = _runs((windows[..., None] == later.transpose(1, 2)) & _exists(column, orders, columns))
    rest = orders[:, None] - orders[1:]  # an n-gram that overlaps itself after d units has n - d in common
    overlaps = same.gather(1, rest.clamp(min=0)[:, None].expand_as(same)) * (rest >= 0)[:, None]
    return (clips, overlaps.permute(3, 0, 1, 2).bool()), None


def _exists(column: Tensor, orders: Tensor, columns: int) -> Tensor:
    """(N, L, D): whether the token i + d columns on is one of the row, d = 1..N - 1."""
    return (orders[:, None, None] + column[:, None] + orders[1:]) < columns


def _runs(equal: Tensor) -> Tensor:
    """1 where all entries of the second axis so far are True."""
    return equal.cumprod(1, dtype=torch.uint8)
