"""Which n-grams of the references are equal, how often they occur, and which overlap themselves.

Equal n-grams get equal numbers by sorting, so no two are ever confused and nothing of size R x R is formed.
"""

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs


def forward(keep: bool, ids: Tensor, lengths: Tensor, max_order: int) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.ngram_clips`. O(N L log L) time per sentence."""
    batch, number, width = ids.shape
    flat = ids.reshape(batch, number * width)
    position = torch.arange(width, device=ids.device)
    orders = torch.arange(1, max_order + 1, device=ids.device)
    fits = position + orders[:, None, None] <= lengths[:, None, :, None]
    numbers = torch.stack(ngram_numbers(flat, max_order), 1)
    clips = _clip_at_first(numbers.view(batch, max_order, number, width), fits)
    return (clips, _self_overlaps(flat, max_order)), None


def dense_ranks(keys: Tensor) -> Tensor:
    """Number the distinct values of each last-axis row from 0: equal values get equal numbers.

    O(L log L) time, O(L) memory for a row.

    >>> dense_ranks(torch.tensor([[50, 7, 50, 9]])).tolist()
    [[2, 0, 2, 1]]
    """
    ordered, order = keys.sort(-1)
    new = torch.zeros_like(ordered)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    return torch.empty_like(keys).scatter(-1, order, new.cumsum(-1))


def ngram_numbers(ids: Tensor, max_order: int) -> list[Tensor]:
    """For each order n, a number for the n-gram starting at each column: equal within a row iff the n-grams are.

    ``ids`` is (B, L). Columns whose n-gram runs over the row's end carry a meaningless number.
    """
    columns = ids.shape[-1]
    tokens = dense_ranks(ids)
    numbers = [tokens]
    for order in range(2, max_order + 1):
        last = tokens.roll(1 - order, -1)
        numbers.append(dense_ranks(numbers[-1] * columns + last))
    return numbers


def count_numbers(numbers: Tensor, counted: Tensor, size: int) -> Tensor:
    """How often each number below ``size`` occurs among the counted columns: (..., L) to (..., size)."""
    counts = numbers.new_zeros(*numbers.shape[:-1], size)
    return counts.scatter_add(-1, numbers, counted.long())


def largest_counts(numbers: Tensor, counted: Tensor, size: int) -> Tensor:
    """The largest count over references of each number below ``size``: (..., K, R) to (..., size).

    Pairs of number and reference are numbered in turn, so that memory is O(K R + size) a row, not K times the size.
    """
    number = numbers.shape[-2]
    if number == 1:
        return count_numbers(numbers.squeeze(-2), counted.squeeze(-2), size)
    reference = torch.arange(number, device=numbers.device)[:, None]
    pairs = dense_ranks((numbers * number + reference).flatten(-2))
    of_pair = count_numbers(pairs, counted.flatten(-2), pairs.shape[-1])
    largest = numbers.new_zeros(*numbers.shape[:-2], size)
    return largest.scatter_reduce(-1, numbers.flatten(-2), of_pair.gather(-1, pairs), "amax")


def _clip_at_first(numbers: Tensor, fits: Tensor) -> Tensor:
    """The largest count over references at each n-gram's first occurrence, 0 elsewhere: (B, N, K, R) to (B, N, L)."""
    flat, counted = numbers.flatten(2), fits.flatten(2)
    columns = flat.shape[2]
    clip_of_number = largest_counts(numbers, fits, columns)
    column = torch.where(counted, torch.arange(columns, device=flat.device), columns)
    first_of_number = torch.full_like(flat, columns).scatter_reduce(-1, flat, column, "amin")
    first = counted & (first_of_number.gather(-1, flat) == column)
    return torch.where(first, clip_of_number.gather(-1, flat), 0)


def _self_overlaps(ids: Tensor, max_order: int) -> Tensor:
    """(D, B, N, L) with D = N - 1: True at d - 1 where g[d:] == g[:n-d] for the n-gram g at that column, d < n."""
    batch, columns = ids.shape
    overlaps = torch.zeros(max_order - 1, batch, max_order, columns, dtype=torch.bool, device=ids.device)
    for shift in range(1, min(max_order, columns)):
        repeats = ids[:, shift:] == ids[:, :-shift]
        run = repeats
        for size in range(1, min(max_order - shift, repeats.shape[1]) + 1):
            run = repeats if size == 1 else run[:, :-1] & repeats[:, size - 1 :]
            overlaps[shift - 1, :, shift + size - 1, : run.shape[1]] = run
    return overlaps
