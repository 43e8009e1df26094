"""ROUGE-N and ROUGE-L: the share of n-grams, or of the longest common subsequence, that both sequences have."""

import torch
from torch import Tensor

from bleugrad.arguments import LARGEST_ORDER, check_choice, check_int
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.scores.score import SEVERAL, PooledScore, expected_ratio, over_references, reference_matches

KINDS = ("recall", "precision", "f1")


class ROUGE(PooledScore):
    """ROUGE-N, equal to ``rouge-score`` on the same tokens.

    With O the clipped matches of order n, M the n-grams of the hypothesis and R those of the reference: recall is
    O / R, precision O / M, and F1 2 O / (M + R); 0 where there are no n-grams. Given the length these are linear in O,
    so with ``method="exact"`` the value is the **exact expectation of the metric**, except for precision and F1 in
    words (``word_start``) and for CTC: they are E[O] / E[d], a surrogate, d being M or (M + R) / 2. With other methods
    O is what the method gives, and a random length leads to E[O] / E[d].

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
        self.kind, self.several = check_choice("kind", kind, KINDS), check_choice("several", several, SEVERAL)

    def __repr__(self) -> str:
        return f"ROUGE({self.n}, {self.kind!r}, several={self.several!r})"

    def sentences(self, statistics: ExpectedStatistics) -> Tensor:
        """See :class:`bleugrad.scores.score.PooledScore`."""
        values = self._ratios(statistics, self.kind)
        one = values.shape[1] == 1 or self.several == "mean" or self.kind == "f1"
        quality = values if one else self._ratios(statistics, "f1")
        return over_references(values, statistics.references, self.several, quality)

    def sums(self, statistics: ExpectedStatistics) -> Tensor:
        """See :class:`bleugrad.scores.score.PooledScore`."""
        values, given = self.sentences(statistics), (statistics.references.lengths > 0).any(1)
        return torch.stack([(values * given).sum(), given.sum().to(values.dtype)])

    def _ratios(self, statistics: ExpectedStatistics, kind: str) -> Tensor:
        """The score with each reference, (B, K)."""
        matches = self._matches(statistics, joint=kind != "recall")
        lengths = statistics.lengths
        of_reference = self._units(statistics.references.lengths)[..., None].to(matches.dtype)
        of_hypothesis = self._units(lengths.support)[:, None].to(matches.dtype)
        denominators = {"recall": of_reference, "precision": of_hypothesis, "f1": (of_hypothesis + of_reference) / 2}
        return expected_ratio(matches, denominators[kind], lengths.probs[:, None])

    def _matches(self, statistics: ExpectedStatistics, *, joint: bool) -> Tensor:
        """What is counted in both, (B, K, S)."""
        return reference_matches(statistics, joint=joint)[:, :, self.n - 1]

    def _units(self, lengths: Tensor) -> Tensor:
        """How many there are in a sequence of that length."""
        return (lengths - self.n + 1).clamp(min=0)


class ROUGEL(ROUGE):
    """ROUGE-L of token ids, equal to ``rougeL`` of ``rouge-score`` on the same tokens.

    With L the length of the longest common subsequence: recall is L over the reference's length, precision L over the
    hypothesis's, F1 2 L over their sum. It is for :func:`bleugrad.token_score` and :func:`bleugrad.token_rewards`,
    where it is exact. The expectation of L is not known, so outputs of models are refused.

    Args:
        kind, several: as for :class:`bleugrad.ROUGE`.

    Example:
        >>> import bleugrad
        >>> bleugrad.token_score([[1, 7, 2, 3]], [[1, 2, 3, 4]], bleugrad.ROUGEL("f1")).item()
        0.75
    """

    def __init__(self, kind: str = "f1", several: str = "best") -> None:
        super().__init__(1, kind, several)

    def __repr__(self) -> str:
        return f"ROUGEL({self.kind!r}, several={self.several!r})"

    def _matches(self, statistics: ExpectedStatistics, *, joint: bool) -> Tensor:
        find = getattr(statistics.parts, "common_subsequences", None)
        if find is None:
            raise ValueError(
                "the score is ROUGEL, whose expectation is not known; expected token ids (bleugrad.token_score), or "
                "ROUGE(n) for the output of a model"
            )
        found: Tensor = find()
        return found
