"""ROUGE-L: the share of the longest common subsequence."""

from torch import Tensor

from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.scores.rouge import ROUGE


class ROUGEL(ROUGE):
    """ROUGE-L of token ids, equal to ``rougeL`` of ``rouge-score`` on the same tokens.

    With L the length of the longest common subsequence: recall is L over the reference's length, precision L over the
    hypothesis's, F1 2 L over their sum. It is for :func:`bleugrad.token_score` and :func:`bleugrad.token_rewards`,
    where it is exact. The expectation of L is not known, so outputs of models are refused.

    Args:
        kind: "recall", "precision" or "f1".
        several: "best" takes the reference of the highest F1, "mean" the mean over references.

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
