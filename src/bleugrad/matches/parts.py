"""Expected matches with each reference on its own, weighted if asked for, and jointly with the length where known.

Matches are a sum over n-grams, and kernels sum them. To tell references or n-grams apart, their columns are moved to
the batch: a sentence with K references becomes K sentences, or one sentence per n-gram.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from bleugrad.backends import operations
from bleugrad.references.ngrams import Patterns
from bleugrad.references.sequences import References, reads_back
from bleugrad.references.targets import Targets

Weigh = Callable[..., Tensor]
"""Weights (N, B, U) of the n-grams from each unit on: of tokens (B, L), first token and span of each unit (B, U)."""

C = TypeVar("C", bound="Counted")


class Counted(Protocol):
    """What matches are counted from: rows, frames or paths."""

    @property
    def probs(self) -> Tensor:
        """(T, B, L), of the columns."""

    @property
    def patterns(self) -> Patterns:
        """The n-grams of the references."""

    def repeated(self: C, times: int, probs: Tensor, ids: Tensor, patterns: Patterns) -> C:
        """The same with each sentence repeated ``times`` times, and with other columns."""


class ReferenceMatches(Protocol):
    """Matches that are known with each reference on its own."""

    def matches(self, weigh: Weigh | None = None, *, joint: bool = False) -> Tensor:
        """(B, K, N, S): E[O_n; length = l] with each reference if ``joint`` and known; else E[O_n], (B, K, N, 1).

        ``weigh`` gives each n-gram a weight.
        """


@dataclass(frozen=True)
class Parts(Generic[C]):
    """The matches of an output with each of its references; ``total`` (B, N) are those with all of them.

    ``expect`` gives the expected matches (B, N) of what is counted, and ``by_length`` those of every length, (B, N, S),
    or None where they are not known.
    """

    total: Tensor
    counted: C
    targets: Targets
    expect: Callable[[C], Tensor]
    by_length: Callable[[C], Tensor | None]

    def matches(self, weigh: Weigh | None = None, *, joint: bool = False) -> Tensor:
        """See ``ReferenceMatches``. Exact as the method is.

        O(T B L) time and memory per order as for one reference, or O(T B L N) per order with weights.
        """
        units, patterns = self.targets.units, self.counted.patterns
        batch, number, width = units.ids.shape
        if weigh is None and number == 1:
            known = self.by_length(self.counted) if joint else None
            return (self.total.unsqueeze(2) if known is None else known).unsqueeze(1)
        order, spans = patterns.clips.shape[1], patterns.spans
        apart = References(units.ids.reshape(-1, 1, width), units.lengths.reshape(-1, 1))
        clips, overlaps = operations.ngram_clips(apart.ids, apart.lengths, order)
        alone = Patterns(clips, overlaps, None if spans is None else spans.reshape(-1, width))
        probs, columns, times = self.counted.probs, apart.ids.squeeze(1), number
        probs = probs.reshape(probs.shape[0], batch * number, width)
        if weigh is not None:
            times = number * width
            probs, columns, alone = _one_ngram_each(probs, columns, alone)
        counted = self.counted.repeated(times, probs, columns, alone)
        known = self.by_length(counted) if joint else None
        found = self.expect(counted).unsqueeze(2) if known is None else known
        if weigh is None:
            return found.view(batch, number, *found.shape[1:])
        found = found.view(batch, number, width, *found.shape[1:])
        ids, words = self.targets.tokens.ids.flatten(1), self.targets.words
        every = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        starts, lengths = (every, torch.ones_like(every)) if words is None else (words.starts, words.spans)
        weights = weigh(ids, starts, lengths).to(found.dtype).permute(1, 2, 0).reshape(batch, number, width, order, 1)
        return (found * weights).sum(2)


def _one_ngram_each(probs: Tensor, ids: Tensor, patterns: Patterns) -> tuple[Tensor, Tensor, Patterns]:
    """Columns (T, B, L) and (B, L) as (T, B L, W) and (B L, W): the n-grams of all orders from one column on.

    Backends need as many columns as an n-gram counts at most, so W may be above N.
    """
    clips = patterns.clips
    width = max(clips.shape[1], int(clips.max()) if reads_back(clips) and clips.numel() else clips.shape[2])

    def windows(columns: Tensor) -> Tensor:
        return pad(columns, (0, width - 1)).unfold(-1, width, 1).flatten(-3, -2).contiguous()

    def at_first(values: Tensor) -> Tensor:
        return pad(values.transpose(-1, -2).flatten(-3, -2).unsqueeze(-1), (0, width - 1)).contiguous()

    spans = None if patterns.spans is None else windows(patterns.spans)
    return windows(probs), windows(ids), Patterns(at_first(clips), at_first(patterns.overlaps), spans)
