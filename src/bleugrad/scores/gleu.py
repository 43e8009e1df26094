"""GLEU of translation systems (Wu et al., 2016): the smaller of precision and recall of all n-grams together."""

import torch
from torch import Tensor

from bleugrad.arguments import check_choice, check_order
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.scores.score import SEVERAL, PooledScore, expected_ratio, over_references, reference_matches


class GLEU(PooledScore):
    """sum_n O_n / max(sum_n M_n, sum_n R_n), equal to ``nltk.translate.gleu_score`` on the same tokens.

    O_n are the clipped matches, M_n and R_n the n-grams of hypothesis and reference. Given the length it is linear in
    the matches, so at **sentence level** the value is the **exact expectation** of GLEU with ``method="exact"`` for
    rows of tokens, of fixed or random length, and for graphs. In words (``word_start``) and for CTC it is the surrogate
    sum_n E[O_n] / E[max(M, R)]; so it is for other methods where the length is random. At **corpus level** matches and
    denominators are summed over sentences, as in ``corpus_gleu``: exact for a fixed length in tokens, otherwise a
    surrogate.

    Args:
        max_order: the highest order.
        several: "best" takes the reference of the highest score, as nltk. Of expectations it is a surrogate, and at
            sentence level a lower bound of the mean of the best. "mean" averages over references, at corpus level
            their matches and denominators; it is exact where one reference is.

    Example:
        >>> import torch, bleugrad
        >>> logits = torch.zeros(1, 3, 2)  # p = 0.5 everywhere
        >>> score = bleugrad.GLEU(max_order=1)
        >>> round(bleugrad.expected_score(logits, [[0, 0]], score).value.item(), 4)  # 1.375 / 3
        0.4583
    """

    def __init__(self, max_order: int = 4, several: str = "best") -> None:
        self.max_order, self.several = check_order(max_order), check_choice("several", several, SEVERAL)

    def __repr__(self) -> str:
        return f"GLEU({self.max_order}, several={self.several!r})"

    def sentences(self, statistics: ExpectedStatistics) -> Tensor:
        """See :class:`bleugrad.scores.score.PooledScore`."""
        values, _, _ = self._parts(statistics)
        return over_references(values, statistics.references, self.several, values)

    def sums(self, statistics: ExpectedStatistics) -> Tensor:
        """See :class:`bleugrad.scores.score.PooledScore`."""
        values, *parts = self._parts(statistics)
        found = [over_references(part, statistics.references, self.several, values).sum() for part in parts]
        return torch.stack(found)

    def _parts(self, statistics: ExpectedStatistics) -> tuple[Tensor, Tensor, Tensor]:
        """The score with each reference, its expected matches and its expected denominator, (B, K) each."""
        matches, lengths = reference_matches(statistics, joint=True).sum(2), statistics.lengths
        of_hypothesis = all_ngrams(lengths.support, self.max_order)[:, None]
        of_reference = all_ngrams(statistics.references.lengths, self.max_order)[..., None]
        most, probs = torch.maximum(of_hypothesis, of_reference).to(matches.dtype), lengths.probs[:, None]
        return expected_ratio(matches, most, probs), matches.sum(2), (most * probs).sum(2)


def all_ngrams(lengths: Tensor, max_order: int) -> Tensor:
    """The number of n-grams of all orders up to ``max_order``."""
    orders = lengths.clamp(max=max_order)
    return orders * lengths - orders * (orders - 1) // 2
