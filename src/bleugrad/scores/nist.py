"""NIST (Doddington, 2002): precisions of matches weighted by their information, and a penalty of the length."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from bleugrad.arguments import check_choice, check_int, check_order
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.references.sequences import IdLists, prepare_references
from bleugrad.references.targets import check_word_start
from bleugrad.scores.bleu import ngram_totals
from bleugrad.scores.ngram_weights import NGramWeights
from bleugrad.scores.score import SEVERAL, PooledScore, best, expected_ratio, reference_matches

BETA = math.log(0.5) / math.log(1.5) ** 2
"""The penalty is 1 / 2 where a hypothesis has 2 / 3 of the length of the reference."""


class NIST(PooledScore):
    """sum_n (sum of the weights of matches of order n) / M_n times a penalty of the length, equal to nltk's NIST.

    The weight of an n-gram is its information: log2 of how often its first n - 1 tokens occur for each time that it
    does. :meth:`from_references` computes weights from a corpus of references. NIST is at least 0 and has no upper
    limit, so a loss ``1 - NIST`` has no fixed minimum.

    With one reference its value is exact where that of :class:`bleugrad.GLEU` is. Elsewhere it is the surrogate
    E[penalty] sum_n E[O_n] / E[M_n]. At **corpus level** matches, n-grams and lengths are summed over sentences, as in
    ``corpus_nist``. Weighted matches take N times the memory of matches.

    Args:
        weights: the weight of each n-gram, a tuple of token ids; in words, the tokens of the words. N-grams without one
            have weight 0.
        max_order: the highest order.
        several: "best" takes for each order the reference with the highest precision, the longest of equals, as nltk.
            Of expectations it is a surrogate. "mean" averages over references, and is exact at sentence level where
            one reference is.

    Example:
        >>> import torch, bleugrad
        >>> score = bleugrad.NIST({(0,): 1.0}, max_order=1)
        >>> round(bleugrad.expected_score(torch.zeros(1, 3, 2), [[0, 0]], score).value.item(), 4)  # 1.375 / 3
        0.4583
    """

    def __init__(self, weights: Mapping[tuple[int, ...], float], max_order: int = 5, several: str = "best") -> None:
        self.max_order, self.several = check_order(max_order), check_choice("several", several, SEVERAL)
        self.weights = NGramWeights.from_mapping(weights, self.max_order)

    def __repr__(self) -> str:
        return f"NIST({self.weights!r}, {self.max_order}, several={self.several!r})"

    @classmethod
    def from_references(
        cls,
        references: Tensor | IdLists,
        *,
        max_order: int = 5,
        several: str = "best",
        word_start: Tensor | None = None,
        eos_id: int | None = None,
        ignore_index: int = -100,
    ) -> "NIST":
        """NIST with the information of the n-grams of these references, as nltk computes it from a test set.

        ``references`` are (B, R), (B, K, R) or nested lists of token ids, cut before ``eos_id``. With
        ``word_start`` (V,) n-grams of words are counted.
        """
        score, opens, size = cls({}, max_order, several), None, None
        if word_start is not None:
            size = word_start.numel() if isinstance(word_start, Tensor) else 0
            opens = check_word_start(word_start, size).cpu()
        prepared = prepare_references(
            references,
            batch=len(references) if isinstance(references, Sequence) or getattr(references, "ndim", False) else 0,
            of="references",
            device=torch.device("cpu"),
            vocabulary=size,
            eos_id=None if eos_id is None else check_int("eos_id", eos_id),
            ignore_index=check_int("ignore_index", ignore_index),
        )
        score.weights = NGramWeights.information(prepared, opens, max_order)
        return score

    @property
    def number_of_sums(self) -> int:
        """See :class:`bleugrad.scores.score.PooledScore`."""
        return 2 * self.max_order + 2

    def sentences(self, statistics: ExpectedStatistics) -> Tensor:
        """See :class:`bleugrad.scores.score.PooledScore`."""
        matches, totals, probs, wanted, share = self._parts(statistics)
        support = statistics.lengths.support[:, None].to(probs.dtype)
        penalty = length_penalty(support, wanted[..., None])[:, :, None]
        if matches.shape[3] == penalty.shape[3]:
            values = expected_ratio(matches * penalty, totals, probs).sum(2)
        else:
            values = (expected_ratio(matches, totals, probs) * (penalty * probs).sum(3)).sum(2)
        return (values * share).sum(1)

    def sums(self, statistics: ExpectedStatistics) -> Tensor:
        """See :class:`bleugrad.scores.score.PooledScore`."""
        matches, totals, probs, wanted, share = self._parts(statistics)
        found = (matches.sum(3) * share[..., None]).sum((0, 1))
        sizes = torch.stack([(wanted * share).sum(), statistics.lengths.mean().to(found.dtype).sum()])
        return torch.cat([found, (totals * probs).sum(3).squeeze(1).sum(0), sizes])

    def of_sums(self, sums: Tensor) -> Tensor:
        """See :class:`bleugrad.scores.score.PooledScore`."""
        matches, totals = sums[:-2].view(2, -1)
        precision: Tensor = (matches / torch.where(totals > 0, totals, 1)).sum()
        return precision * length_penalty(sums[-1], sums[-2])

    def _parts(self, statistics: ExpectedStatistics) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Weighted matches (B, K, N, S), totals (B, 1, N, S), P(length) (B, 1, 1, S), reference lengths, shares (B, K).

        K is 1 for the best reference of each order; its length is the mean over orders then.
        """
        matches, lengths = reference_matches(statistics, self.weights, joint=True), statistics.lengths
        totals, probs = ngram_totals(lengths, self.max_order)[:, None].to(matches.dtype), lengths.probs[:, None, None]
        given, wanted = statistics.references.lengths, statistics.references.lengths.to(probs.dtype)
        if self.several == "mean" or matches.shape[1] == 1:
            counted = (given > 0).to(probs.dtype)
            return matches, totals, probs, wanted, counted / counted.sum(1, keepdim=True).clamp(min=1)
        quality = expected_ratio(matches.detach(), totals, probs)
        longest = (quality >= quality.amax(1, keepdim=True)) * (given[..., None] + 1)
        chosen = best(longest, given[..., None] > 0)
        wanted = wanted.gather(1, chosen.squeeze(1)).mean(1, keepdim=True)
        matches = matches.gather(1, chosen[..., None].expand(-1, 1, -1, matches.shape[3]))
        return matches, totals, probs, wanted, torch.ones_like(wanted)


def length_penalty(length: Tensor, wanted: Tensor) -> Tensor:
    """exp(beta log(min(length / wanted, 1))^2); 0 for an empty hypothesis, as the logarithm is of at least ``tiny``."""
    tiny = torch.finfo(length.dtype).tiny
    ratio = (length / torch.where(wanted > 0, wanted, 1)).clamp(min=tiny, max=1)
    return torch.exp(BETA * ratio.log() ** 2)
