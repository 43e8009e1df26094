"""The paper's matrices of equal n-grams (section 2.2), formed where sentences are short enough for that to be fastest.

``S^n[i, j]`` says whether the n-grams of the hypothesis at i and j are equal, ``P^n[j, i]`` whether the n-gram of the
reference at j equals that of the hypothesis at i. Each order follows from the one below by one diagonal step. Sentences
stand on the last axis, where one machine instruction compares many of them.

The clipped matches are ``O_n = sum_i min(1, v^y_i / v^x_i)`` in the paper, v^x and v^y the column sums of S^n and P^n.
Here position i is a match where its n-gram stands at fewer than v^y_i earlier positions, which has the same sum.
"""

import torch
from torch import Tensor

from bleugrad.references.sequences import References, reads_back


def ranked_columns(
    hypotheses: Tensor, lengths: Tensor, references: References, max_order: int
) -> tuple[Tensor, Tensor]:
    """How often the n-gram at each position was in the hypothesis before, and how often it is in each reference.

    (N, T, B), sums over the part of S^n above its diagonal, and (N, K, T, B), column sums of P^n, 0 where a window does
    not fit: position i is a new match with reference k where the first is below the second.
    """
    same_token, token_there, kind = _of_tokens(hypotheses, lengths, references)
    number, width, steps, batch = token_there.shape
    position = torch.arange(steps, device=same_token.device)
    same_token &= (position[:, None] < position).view(torch.uint8)[..., None]
    ranks = same_token.new_zeros(max_order, steps, batch, dtype=kind)
    counts = same_token.new_zeros(max_order, number, steps, batch, dtype=kind)
    same, there, repeats = same_token, token_there, True
    for order in range(min(max_order, steps, width)):
        if order > 0:
            there = there[:, :-1, :-1] & token_there[:, order:, order:]
        counts[order, :, : steps - order] = there.sum(1, dtype=kind)
        if repeats:  # else no longer n-gram repeats itself
            same = same[:-1, :-1] & same_token[order:, order:] if order > 0 else same
            torch.sum(same, 0, dtype=kind, out=ranks[order, : steps - order])
            repeats = not reads_back(ranks) or bool(ranks[order].any())
    return ranks, counts


def _of_tokens(hypotheses: Tensor, lengths: Tensor, references: References) -> tuple[Tensor, Tensor, torch.dtype]:
    """S^1 (T, T, B) and P^1 (K, R, T, B) as uint8, and an integer type for the sums of their columns."""
    steps, width = hypotheses.shape[1], references.ids.shape[2]
    position = torch.arange(max(steps, width), device=hypotheses.device)
    x = hypotheses.masked_fill(position[:steps] >= lengths[:, None], -1).t()
    y = references.ids.masked_fill(position[:width] >= references.lengths[..., None], -2).permute(1, 2, 0)
    x_bytes, y_bytes = byte_planes(x, y)
    same = equal_bytes([byte[:, None] for byte in x_bytes], x_bytes)
    there = equal_bytes([byte[:, :, None] for byte in y_bytes], x_bytes)
    return same, there, torch.uint8 if max(steps, width) < 256 else torch.int32


def byte_planes(*ids: Tensor) -> list[list[Tensor]]:
    """The bytes that tell ids from -2 on apart: comparing bytes is a dozen times as fast as comparing integers."""
    highest = 2**31
    if reads_back(ids[0]):
        highest = max((int(tensor.max()) for tensor in ids if tensor.numel()), default=0)
    planes = range(0, highest.bit_length() + 1, 8)
    narrow = [tensor.to(torch.int32 if highest < 2**31 else torch.int64).contiguous() for tensor in ids]
    return [
        [(tensor >> shift).to(torch.uint8) if shift else tensor.to(torch.uint8) for shift in planes]
        for tensor in narrow
    ]


def equal_bytes(left: list[Tensor], right: list[Tensor]) -> Tensor:
    """1 where all bytes are equal, else 0, as uint8."""
    equal = left[0] == right[0]
    for one, other in zip(left[1:], right[1:], strict=True):
        equal.logical_and_(one == other)
    return equal.view(torch.uint8)
