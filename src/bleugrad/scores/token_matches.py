"""Matches of token ids with each of their references, of whole sequences or of all their prefixes."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from bleugrad.backends.devices import widest_float
from bleugrad.backends.torch.ngram_clips import count_numbers, ngram_numbers
from bleugrad.lengths.lengths import FixedLengths
from bleugrad.matches.parts import Weigh
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.references.sequences import References, check_range, reads_back
from bleugrad.references.targets import check_word_start
from bleugrad.references.words import segment
from bleugrad.scores.common_subsequence import common_subsequences
from bleugrad.scores.ngram_matrices import ranked_columns

MATRIX_ELEMENTS = 2**14
"""Largest number of pairs of positions per sentence for which the matrices are formed."""


@dataclass(frozen=True)
class TokenMatches:
    """The matches of sequences of units, tokens or words, with each of their references. Exact."""

    ids: Tensor  #: (B, T), hypotheses, closed up, in the units of the references.
    lengths: Tensor  #: (B,)
    references: References
    counts: Tensor  #: (N, K, T, B), how often the n-gram from each unit on is in each reference.
    new: Tensor  #: (N, K, T, B) bool, whether it is a match that the units before it leave.
    tokens: Tensor  #: (B, L), the tokens that the units are made of.
    starts: Tensor  #: (B, T), the first token of each unit.
    spans: Tensor  #: (B, T), its number of tokens.
    prefixes: bool = False  #: whether each prefix of 1..T units is a sentence of its own; B below is B T then.
    alone: Tensor | None = None  #: (B, 1, N, 1), the matches with the only reference, once they are known.

    def statistics(self) -> ExpectedStatistics:
        """What scores are made of."""
        lengths, references = self.lengths, self.references
        one = references.ids.shape[1] == 1
        found = self._summed(self.new if one else self.new.any(1, keepdim=True))
        matches, parts = found[:, 0, :, 0], replace(self, alone=found) if one else self
        if self.prefixes:
            lengths = prefix_lengths(lengths, self.ids.shape[1])
            wanted = references.lengths.repeat_interleave(self.ids.shape[1], 0)
            references = References(wanted[..., None][..., :0], wanted)
        known = lengths[:, None]
        fixed = FixedLengths(torch.ones_like(known, dtype=matches.dtype), known)
        return ExpectedStatistics(matches, fixed, references, parts=parts)

    def matches(self, weigh: Weigh | None = None, *, joint: bool = False) -> Tensor:
        """See ``ReferenceMatches``: (B, K, N, 1), of one length."""
        if weigh is None:
            return self._summed(self.new) if self.alone is None else self.alone
        needed = self.counts.gt(0).any(1).transpose(1, 2) if self.tokens is self.ids else None
        weights = weigh(self.tokens, self.starts, self.spans, needed)
        return self._summed(self.new * weights.transpose(1, 2)[:, None])

    def common_subsequences(self) -> Tensor:
        """The length of the longest common subsequence with each reference, (B, K, 1)."""
        found = common_subsequences(self.ids, self.lengths, self.references).to(widest_float(self.ids.device))
        return found[..., 1:].transpose(1, 2).flatten(0, 1)[..., None] if self.prefixes else found[..., -1:]

    def _summed(self, values: Tensor) -> Tensor:
        """Sums of values (N, K, T, B) at the first unit of n-grams: (B, K, N, 1)."""
        kind = widest_float(self.ids.device)
        if not self.prefixes:
            return values.sum(2).to(kind).permute(2, 1, 0)[..., None]
        steps = values.shape[2]
        ends = [pad(part, (0, 0, n, 0))[:, :steps] for n, part in enumerate(values.to(kind).cumsum(2))]
        return torch.stack(ends).permute(3, 2, 1, 0).flatten(0, 1)[..., None]


def token_matches(
    ids: Tensor, lengths: Tensor, references: References, max_order: int, word_start: Tensor | None = None
) -> TokenMatches:
    """The matches of closed-up hypotheses (B, T); with ``word_start`` (V,) in words."""
    if word_start is None:
        starts = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        found = ranked(ids, lengths, references, max_order)
        return TokenMatches(ids, lengths, references, *found, ids, starts, torch.ones_like(starts))
    width = max(ids.shape[1], references.ids.shape[2])
    every = torch.cat([pad(part, (0, width - part.shape[2])) for part in (ids[:, None], references.ids)], 1)
    vocabulary = word_start.numel() if isinstance(word_start, Tensor) else 0
    check_word_start(word_start, vocabulary)
    check_range("hypotheses or references", every, None, vocabulary, -1)
    words = segment(References(every, torch.cat([lengths[:, None], references.lengths], 1)), word_start.to(ids.device))
    units, sizes = words.references.ids, words.references.lengths
    starts, spans = (values[:, : units.shape[2]] for values in (words.starts, words.spans))
    own = (units[:, 0], sizes[:, 0], References(units[:, 1:], sizes[:, 1:]))
    return TokenMatches(*own, *ranked(*own, max_order), ids, starts, spans)


def ranked(ids: Tensor, lengths: Tensor, references: References, max_order: int) -> tuple[Tensor, Tensor]:
    """``counts`` and ``new`` of :class:`TokenMatches`."""
    steps, (_, number, width) = ids.shape[1], references.ids.shape
    find = ranked_columns if steps * (steps + number * width) <= MATRIX_ELEMENTS else ranked_by_sorting
    ranks, counts = find(ids, lengths, references, max_order)
    return counts, ranks[:, None] < counts


def ranked_by_sorting(
    hypotheses: Tensor, lengths: Tensor, references: References, max_order: int
) -> tuple[Tensor, Tensor]:
    """The counts of ``ranked_columns`` in O(N (T + L) log(T + L)) time and O(N K (T + L)) memory per sentence."""
    batch, steps = hypotheses.shape
    number, width = references.ids.shape[1:]
    ids = torch.cat([hypotheses, references.ids.reshape(batch, number * width)], 1)
    position = torch.arange(max(steps, width), device=ids.device)
    ranks, counts, repeats = [], [], True
    for order, numbers in enumerate(ngram_numbers(ids, max_order), start=1):
        in_hypothesis = position[:steps] + order <= lengths[:, None]
        in_reference = position[:width] + order <= references.lengths[..., None]
        ours, theirs = numbers[:, :steps], numbers[:, steps:].view(batch, number, width)
        rank = torch.zeros_like(ours)
        if repeats:  # else no longer n-gram repeats itself
            ordered, places = torch.where(in_hypothesis, ours, ids.shape[1]).sort(stable=True, dim=1)
            first = torch.searchsorted(ordered, ordered)
            rank = rank.scatter(1, places, position[:steps] - first) * in_hypothesis
            repeats = not reads_back(rank) or bool(rank.any())
        ranks.append(rank.t())
        found = count_numbers(theirs, in_reference, ids.shape[1]).gather(2, ours[:, None].expand(-1, number, -1))
        counts.append((found * in_hypothesis[:, None]).permute(1, 2, 0))
    return torch.stack(ranks), torch.stack(counts)


def prefix_lengths(lengths: Tensor, steps: int) -> Tensor:
    """min(t, length) for t = 1..T: (B,) to (B T)."""
    return torch.minimum(torch.arange(1, steps + 1, device=lengths.device), lengths[:, None]).flatten()
