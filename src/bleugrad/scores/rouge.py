"""ROUGE-N: the share of n-grams that match, of the reference, of the hypothesis, or of both."""

import torch
from torch import Tensor

from bleugrad.arguments import LARGEST_ORDER, check_choice, check_int
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.scores.pooled import PooledScore, check_several, expected_ratio, over_references, reference_matches

KINDS = ("recall", "precision", "f1")


class ROUGE(PooledScore):
    """ROUGE-N, equal to ``rouge-score`` on the same tokens.

    With O the clipped matches of order n, M the n-grams of the hypothesis and R those of the reference: recall is
    O / R, precision O / M, and F1 2 O / (M + R); 0 where there are no n-grams. Given the length these are linear in O,
    so the value is the **exact expectation of the metric** with ``method="exact"``, for these outputs:

    ===================================  ======  =================
    output                               recall  precision and F1
    ===================================  ======  =================
    rows of tokens, fixed length         exact   exact
    rows of tokens with ``eos_id``       exact   exact
    graphs                               exact   exact
    words (``word_start``)               exact   E[O] / E[d], a surrogate; d is M or (M + R) / 2
    CTC                                  exact   E[O] / E[d], a surrogate
    ===================================  ======  =================

    With other methods O is what the method gives, and a random length leads to E[O] / E[d].

    Args:
        n: the order.
        kind: "recall", "precision" or "f1".
        several: "best" takes the reference of the highest F1, as ``score_multi`` of ``rouge-score``. Of expectations it
            is a surrogate: the best mean, which for F1 is a lower bound of the mean of the best. "mean" is the mean
            over references, exact where one reference is.

    At corpus level the score is the mean over sentences that have a reference, exact where the sentences are.

    Example:
        >>> import torch, bleugrad
        >>> logits = torch.zeros(1, 3, 2)  # p = 0.5 everywhere
        >>> bleugrad.expected_score(logits, [[0, 0]], bleugrad.ROUGE(1, "f1")).value.item()  # 2 * 1.375 / (3 + 2)
        0.550000011920929
    """

    def __init__(self, n: int = 2, kind: str = "f1", several: str = "best") -> None:
        if not 1 <= check_int("n", n) <= LARGEST_ORDER:
            raise ValueError(f"n is {n}; expected 1 to {LARGEST_ORDER} (ROUGE-2 is n=2)")
        self.max_order = self.n = n
        check_choice("kind", kind, KINDS)
        self.kind, self.several = kind, check_several(several)

    def __repr__(self) -> str:
        return f"ROUGE({self.n}, {self.kind!r}, several={self.several!r})"

    def sentences(self, statistics: ExpectedStatistics) -> Tensor:
        """See :class:`bleugrad.scores.pooled.PooledScore`."""
        values = self._ratios(statistics, self.kind)
        one = values.shape[1] == 1 or self.several == "mean" or self.kind == "f1"
        quality = values if one else self._ratios(statistics, "f1")
        return over_references(values, statistics.references, self.several, quality)

    def sums(self, statistics: ExpectedStatistics) -> Tensor:
        """See :class:`bleugrad.scores.pooled.PooledScore`."""
        values, given = self.sentences(statistics), (statistics.references.lengths > 0).any(1)
        return torch.stack([(values * given).sum(), given.sum().to(values.dtype)])

    def of_sums(self, sums: Tensor) -> Tensor:
        """See :class:`bleugrad.scores.pooled.PooledScore`."""
        return sums[0] / sums[1].clamp(min=1)

    def _ratios(self, statistics: ExpectedStatistics, kind: str) -> Tensor:
        """The score with each reference, (B, K)."""
        matches = self._matches(statistics, joint=kind != "recall")
        lengths = statistics.lengths
        of_reference = self._units(statistics.references.lengths)[..., None].to(matches.dtype)
        of_hypothesis = self._units(lengths.support)[:, None].to(matches.dtype)
        if kind == "recall":
            return expected_ratio(matches, of_reference, lengths.probs[:, None])
        both = of_hypothesis.expand(-1, of_reference.shape[1], -1)
        if kind == "f1":
            both = (of_hypothesis + of_reference) / 2
        return expected_ratio(matches, both, lengths.probs[:, None])

    def _matches(self, statistics: ExpectedStatistics, *, joint: bool) -> Tensor:
        """What is counted in both, (B, K, S)."""
        return reference_matches(statistics, joint=joint)[:, :, self.n - 1]

    def _units(self, lengths: Tensor) -> Tensor:
        """How many there are in a sequence of that length."""
        return (lengths - self.n + 1).clamp(min=0)
