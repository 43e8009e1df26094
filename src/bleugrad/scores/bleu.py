"""BLEU of statistics: precisions, brevity penalty, and their product."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.arguments import check_nonnegative, check_order, check_weights
from bleugrad.lengths.brevity import expected_brevity_penalty, pooled_brevity_penalty
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.pooling import Pool


@dataclass(frozen=True, init=False)
class BLEU:
    """``BP * prod_n ((O_n + s) / (M_n + s)) ^ w_n``, checked.

    Args:
        max_order: highest n-gram order N.
        weights: N non-negative numbers that sum to 1, uniform by default.
        smoothing: s, added to matches and totals of every order as in the paper (sacreBLEU's add-k leaves order 1
            alone).
    """

    max_order: int
    weights: tuple[float, ...]
    smoothing: float

    def __init__(
        self, max_order: int = 4, weights: Sequence[float] | Tensor | None = None, smoothing: float = 1.0
    ) -> None:
        object.__setattr__(self, "max_order", check_order(max_order))
        object.__setattr__(self, "weights", check_weights(weights, max_order))
        object.__setattr__(self, "smoothing", check_nonnegative("smoothing", smoothing))

    def value(self, statistics: ExpectedStatistics, level: str, pool: Pool | None) -> Tensor:
        """BLEU of the expected statistics: a surrogate of expected BLEU."""
        return self.factors(statistics, level, pool)[0]

    def factors(
        self, statistics: ExpectedStatistics, level: str, pool: Pool | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The value, the precisions and the brevity penalty, of each sentence or of the whole batch."""
        matches, totals = statistics.matches, statistics.totals
        if level == "corpus":
            sums = torch.stack([matches.sum(0), totals.sum(0)])
            matches, totals = sums if pool is None else pool.sum(sums)
        precisions = smoothed_precisions(matches, totals, self.smoothing)
        mean = weighted_geometric_mean(precisions, self.weights)
        if level == "corpus":
            penalty = pooled_brevity_penalty(statistics.lengths, statistics.references, pool)
        else:
            penalty = expected_brevity_penalty(statistics.lengths, statistics.references)
        return penalty * mean, precisions, penalty


def smoothed_precisions(matches: Tensor, totals: Tensor, smoothing: float) -> Tensor:
    """(O_n + s) / (M_n + s), the paper's smoothing on every order; 0 where M_n + s = 0.

    sacreBLEU's add-k differs: it leaves order 1 as it is.
    """
    denominator = totals + smoothing
    if smoothing > 0:
        return (matches + smoothing) / denominator
    return torch.where(
        denominator > 0, (matches + smoothing) / denominator.clamp(min=torch.finfo(totals.dtype).tiny), 0
    )


def weighted_geometric_mean(factors: Tensor, weights: tuple[float, ...]) -> Tensor:
    """prod_n factors_n ^ w_n over the last axis; 0, with zero gradient, where a factor of positive weight is 0.

    Orders of weight 0 are left out. The logarithm is taken of max(factor, tiny), and 1 / tiny is finite, so values and
    gradients are finite.
    """
    used = [order for order, weight in enumerate(weights) if weight > 0]
    if len(used) < len(weights):
        factors = factors[..., used]
    chosen = [weights[order] for order in used]
    exponents = chosen[0] if len(set(chosen)) == 1 else factors.new_tensor(chosen)  # no copy from the host if equal
    tiny = torch.finfo(factors.dtype).tiny
    mean = (factors.clamp(min=tiny).log() * exponents).sum(-1).exp()
    return torch.where((factors >= tiny).all(-1), mean, 0)
