"""The contribution of each n-gram of the references to the expected matches of its order.

Expected matches are a sum over n-grams. So the functions of the loss run on a batch with one n-gram per sentence, all
with the same rows.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from bleugrad.backends.torch.windows import window_probabilities
from bleugrad.matches import Bound
from bleugrad.matches.exact import completed_matches
from bleugrad.matches.statistics import RowWindows, row_statistics
from bleugrad.outputs.rows import TokenProbabilities
from bleugrad.references.ngrams import Patterns
from bleugrad.references.sequences import References
from bleugrad.references.targets import Targets
from bleugrad.references.words import Words

BLOCK_ELEMENTS = 2**22
"""Maximum elements of a working tensor of a block of n-grams."""


class Contributions(NamedTuple):
    """The contributions of P n-grams: n - 1, column among the patterns and clip c_g (P,), exact and bounded matches.

    ``completed`` (P, T) are the expected new matches completed at each position, exact; ``bound`` (P,) is the paper's.
    """

    order_index: Tensor
    column: Tensor
    clips: Tensor
    completed: Tensor
    bound: Tensor


def contributions(gathered: TokenProbabilities, targets: Targets) -> Contributions:
    """Exact expectation and bound of each n-gram of one sentence. O(P T N L) time."""
    patterns = targets.patterns
    assert patterns is not None
    order_index, column = patterns.clips[0].nonzero().unbind(1)
    completed, bound = [], []
    size = max(1, BLOCK_ELEMENTS // max(1, gathered.match_probs[0].numel() * patterns.clips.shape[1]))
    for orders, columns in zip(order_index.split(size), column.split(size), strict=True):
        repeated, repeated_targets = _repeat(gathered, targets, _separate(patterns, orders, columns))
        statistics = row_statistics(repeated.match_probs, repeated.opening, repeated_targets, Bound())
        assert statistics.windows is not None
        bound.append(statistics.matches.sum(1))
        completed.append(completed_matches(statistics.windows).sum(2).t())
    clips = patterns.clips[0, order_index, column]
    return Contributions(order_index, column, clips, torch.cat(completed), torch.cat(bound))


def windows_by_start(windows: RowWindows, units: References) -> Tensor:
    """(N, T, L): probability that the n units from column j occur from position t; NaN if they do not fit."""
    patterns = windows.patterns
    max_order = patterns.clips.shape[1]
    steps, _, columns = windows.probs.shape
    ending = window_probabilities(windows.probs, patterns.spans, 0, columns, max_order)[:, :, 0]
    if windows.boundary is not None:
        ending = ending * windows.boundary[:, None]
    width = units.ids.shape[2]
    spans = torch.ones(columns, dtype=torch.long) if patterns.spans is None else patterns.spans[0]
    starting = torch.full((max_order, steps, columns), torch.nan, dtype=ending.dtype)
    for column in range(columns):
        left = int(units.lengths[0, column // width]) - column % width
        for order in range(1, min(max_order, left) + 1):
            tokens = int(spans[column : column + order].sum())
            if tokens <= steps:
                starting[order - 1, : steps - tokens + 1, column] = ending[tokens - 1 :, order - 1, column]
    return starting


def _separate(patterns: Patterns, order_index: Tensor, column: Tensor) -> Patterns:
    """The patterns of one sentence, repeated, each with one nonzero clip."""
    number = order_index.shape[0]
    clips = torch.zeros_like(patterns.clips).repeat(number, 1, 1)
    clips[torch.arange(number), order_index, column] = patterns.clips[0, order_index, column]
    shifts, _, *rest = patterns.overlaps.shape
    spans = None if patterns.spans is None else patterns.spans.expand(number, -1)
    return Patterns(clips, patterns.overlaps.expand(shifts, number, *rest), spans)


def _repeat(gathered: TokenProbabilities, targets: Targets, patterns: Patterns) -> tuple[TokenProbabilities, Targets]:
    number = patterns.clips.shape[0]

    def again(values: Tensor) -> Tensor:
        return values.expand(number, *values.shape[1:]) if values.numel() else values

    def repeated(references: References) -> References:
        return References(again(references.ids), again(references.lengths))

    words = targets.words
    if words is not None:
        words = Words(repeated(words.references), again(words.starts), again(words.spans), again(words.continued))
    tokens = repeated(targets.tokens)
    units = tokens if words is None else words.references
    limits, columns = again(targets.limits), again(targets.columns)
    targets = replace(targets, limits=limits, tokens=tokens, units=units, columns=columns, words=words)
    return TokenProbabilities(*map(again, gathered[:3])), replace(targets, patterns=patterns)
