"""The contribution of each n-gram of the references to the expected matches of its order, and its windows."""

from collections import defaultdict

import torch
from torch import Tensor

from bleugrad.backends.torch.windows import window_probabilities
from bleugrad.matches import Bound, Exact
from bleugrad.matches.statistics import RowWindows
from bleugrad.references.ngrams import Patterns
from bleugrad.references.sequences import References

BLOCK_ELEMENTS = 2**22
"""Maximum elements of a working tensor of a block of n-grams."""


def contributions(windows: RowWindows, units: References) -> list[list[tuple[float, float, int]]]:
    """Exact expectation, bound and clip of each n-gram of one sentence, for each order. O(P T N L) time.

    Expected matches are a sum over n-grams. So they are computed for a batch with one n-gram per sentence, all with the
    same rows. N-grams are in the order of their first occurrence.
    """
    patterns = windows.patterns
    parts: list[list[tuple[float, float, int]]] = [[] for _ in range(patterns.clips.shape[1])]
    size = max(1, BLOCK_ELEMENTS // max(1, windows.probs.numel() * patterns.clips.shape[1]))
    for block in patterns.clips[0].nonzero().split(size):
        times, (orders, columns) = len(block), block.unbind(1)
        clips = patterns.clips.new_zeros(times, *patterns.clips.shape[1:])
        clips[torch.arange(times), orders, columns] = patterns.clips[0, orders, columns]
        spans = None if patterns.spans is None else patterns.spans.expand(times, -1)
        separate = Patterns(clips, patterns.overlaps.expand(-1, times, -1, -1), spans)
        ids = units.ids.flatten(1).expand(times, -1)
        repeated = windows.repeated(times, windows.probs.expand(-1, times, -1), ids, separate)
        exact, bound = (method.rows(repeated).sum(1) for method in (Exact(), Bound()))
        found = (exact, bound, clips.sum((1, 2)))
        for order, *part in zip(*(values.tolist() for values in (orders, *found)), strict=True):
            parts[order].append(tuple(part))
    return parts


def occurrences(units: References, order: int) -> list[list[int]]:
    """Start indices of each n-gram among the units of all references, in the order of their first occurrence."""
    found, first = defaultdict(list), 0
    for row, length in zip(units.ids[0].tolist(), units.lengths[0].tolist(), strict=True):
        for start in range(length - order + 1):
            found[tuple(row[start : start + order])].append(first + start)
        first += length
    return list(found.values())


def windows_by_start(windows: RowWindows, units: References) -> Tensor:
    """(N, T, U): probability that the n units from unit j on occur from position t; NaN if they do not fit."""
    patterns, (steps, _, columns) = windows.patterns, windows.probs.shape
    max_order, width = patterns.clips.shape[1], units.ids.shape[2]
    ending = window_probabilities(windows.probs, patterns.spans, 0, columns, max_order)[:, :, 0]
    if windows.boundary is not None:
        ending = ending * windows.boundary[:, None]
    spans = torch.ones(columns, dtype=torch.long) if patterns.spans is None else patterns.spans[0]
    starting = []
    for reference, length in enumerate(units.lengths[0].tolist()):
        for unit in range(length):
            column, found = reference * width + unit, torch.full((max_order, steps), torch.nan, dtype=ending.dtype)
            for order in range(1, min(max_order, length - unit) + 1):
                tokens = int(spans[column : column + order].sum())
                if tokens <= steps:
                    found[order - 1, : steps - tokens + 1] = ending[tokens - 1 :, order - 1, column]
            starting.append(found)
    return torch.stack(starting, 2)
