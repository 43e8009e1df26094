"""BLEU of statistics: precisions of the n-gram totals, brevity penalty, and their product."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.arguments import check_nonnegative, check_order, check_weights
from bleugrad.backends import operations
from bleugrad.backends.devices import widest_float
from bleugrad.distributed import Pool
from bleugrad.lengths.lengths import FixedLengths, Lengths
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.references.sequences import References

POSITIVE = 0.01
"""Smoothing that keeps every precision above 0, whatever matches were rounded to."""


@dataclass(frozen=True, init=False)
class BLEU:
    """``BP * prod_n ((O_n + s) / (M_n + s)) ^ w_n``.

    Args:
        max_order: highest n-gram order N, at most 100.
        weights: N non-negative numbers that sum to 1, uniform by default; ``(0, 0, 0, 1)`` scores 4-grams alone.
        smoothing: s, added to matches and totals of every order as in the paper (sacreBLEU's add-k leaves order 1
            alone).

    Without smoothing, an order of positive weight without a possible match makes value and gradient 0. With smoothing,
    an order without n-grams has precision 1.
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
        matches, lengths, references = statistics.matches, statistics.lengths, statistics.references
        totals = mean_totals(lengths, self.max_order)
        if level == "corpus":
            penalty = pooled_brevity_penalty(lengths, references, pool)
            matches, totals = matches.sum(0), totals.sum(0)
            if pool is not None:
                matches, totals = pool.sum(torch.stack([matches, totals]))
        else:
            penalty = expected_brevity_penalty(lengths, references)
        return self.combine(matches, totals, penalty)

    def combine(self, matches: Tensor, totals: Tensor, penalty: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The value, the precisions and the brevity penalty, from matches and totals (..., N) and penalties (...)."""
        precisions = smoothed_precisions(matches, totals, self.smoothing)
        mean = weighted_geometric_mean(precisions, self.weights, positive=self.smoothing >= POSITIVE)
        return penalty * mean, precisions, penalty


def smoothed_precisions(matches: Tensor, totals: Tensor, smoothing: float) -> Tensor:
    """(O_n + s) / (M_n + s), the paper's smoothing on every order; 0 where M_n + s = 0."""
    if smoothing > 0:
        return (matches + smoothing) / (totals + smoothing)
    return torch.where(totals > 0, matches / totals.clamp(min=torch.finfo(totals.dtype).tiny), 0)


def weighted_geometric_mean(factors: Tensor, weights: tuple[float, ...], positive: bool = False) -> Tensor:
    """prod_n factors_n ^ w_n over the last axis; 0, with zero gradient, where a factor of positive weight is 0.

    Orders of weight 0 are left out. Unless all factors are known to be ``positive``, the logarithm is taken of
    max(factor, tiny), and 1 / tiny is finite, so values and gradients are finite.
    """
    if 0 in weights:
        factors = factors[..., [order for order, weight in enumerate(weights) if weight > 0]]
    tiny = torch.finfo(factors.dtype).tiny
    logs = factors.log() if positive else factors.clamp(min=tiny).log()
    chosen = [weight for weight in weights if weight > 0]
    equal = len(set(chosen)) == 1  # then nothing is copied from the host
    mean = (logs.mean(-1) if equal else (logs * factors.new_tensor(chosen)).sum(-1)).exp()
    return mean if positive else torch.where((factors >= tiny).all(-1), mean, 0)


def totals_of(lengths: Tensor, max_order: int) -> Tensor:
    """M_n = max(length - n + 1, 0) of known lengths: (..., 1) to (..., N) long."""
    return (lengths - torch.arange(max_order, device=lengths.device)).clamp_(min=0)


def ngram_totals(lengths: Lengths, max_order: int) -> Tensor:
    """M_n = max(length - n + 1, 0) for every possible length: (B, N, S)."""
    return totals_of(lengths.support[..., None], max_order).transpose(1, 2).to(lengths.probs.dtype)


def mean_totals(lengths: Lengths, max_order: int) -> Tensor:
    """E[M_n], (B, N). Exact."""
    probs = lengths.probs
    if isinstance(lengths, FixedLengths):
        return totals_of(lengths.known, max_order).to(probs.dtype)
    table = totals_of(torch.arange(probs.shape[1], device=probs.device)[:, None], max_order)
    return (probs[..., None] * table).sum(1)  # a product of matrices would heed autocast


def closest_lengths(references: References, hypothesis_lengths: Tensor) -> Tensor:
    """Reference length closest to each hypothesis length, ties to the shorter: (B, ...) to (B, ...).

    An empty reference counts only where a sentence has no other.
    """
    lengths, more = references.lengths, (1,) * (hypothesis_lengths.dim() - 1)
    if lengths.shape[1] == 1:
        return lengths.view(lengths.shape[0], *more).expand_as(hypothesis_lengths)
    lengths = lengths.view(*lengths.shape, *more)
    absent = (lengths == 0) & (lengths.amax(1, keepdim=True) > 0)
    wanted = hypothesis_lengths.unsqueeze(1)
    distance = 2 * (lengths - wanted).abs() + (lengths > wanted)
    nearest = torch.where(absent, torch.iinfo(torch.int64).max, distance).argmin(1, keepdim=True)
    return lengths.expand_as(distance).gather(1, nearest).squeeze(1)


def brevity_penalties(hypothesis_lengths: Tensor, reference_lengths: Tensor) -> Tensor:
    """BP = 1 if c > r else exp(1 - r / c), elementwise; 0 for an empty hypothesis of a non-empty reference.

    The division is by max(c, tiny), so that c = 0 gives exp of a huge negative number, which is 0; c = r = 0 gives 1.
    """
    tiny = torch.finfo(hypothesis_lengths.dtype).tiny
    missing = (hypothesis_lengths - reference_lengths).clamp(max=0)
    return torch.exp(missing / hypothesis_lengths.clamp(min=tiny))


def expected_brevity_penalty(lengths: Lengths, references: References) -> Tensor:
    """E[BP] = sum_l P(length = l) BP(l, r(l)), r(l) the reference length closest to l: (B,), exact."""
    return (lengths.probs * penalty_by_length(lengths, references)).sum(1)


def penalty_by_length(lengths: Lengths, references: References) -> Tensor:
    """BP(l, r(l)) for every possible length: (B, S)."""
    dtype = lengths.probs.dtype
    return brevity_penalties(lengths.support.to(dtype), closest_lengths(references, lengths.support).to(dtype))


def pooled_brevity_penalty(lengths: Lengths, references: References, pool: Pool | None) -> Tensor:
    """E[BP(c, r)] of the summed lengths c and r of a batch, a scalar.

    The distribution of c is the convolution of the sentences' own. Exact where r does not vary with the lengths (one
    reference each, or one sentence); elsewhere r is replaced by E[r | c].

    O(B T log^2) time by fast Fourier transforms, in float64.
    """
    dtype = lengths.probs.dtype
    if isinstance(lengths, FixedLengths):
        sums = torch.cat([lengths.known, closest_lengths(references, lengths.known)], 1).sum(0)
        return brevity_penalties(*(sums if pool is None else pool.sum(sums)).to(dtype))
    pool, exact = pool or Pool(), widest_float(lengths.probs.device)
    probs = lengths.probs.to(exact)
    if pool.largest(references.ids.shape[1], probs.device) == 1:
        (mass,), wanted = _pooled_sum([probs], pool), pool.sum(references.lengths.sum()).to(exact)
    else:
        closest = closest_lengths(references, lengths.support)
        mass, weighted = _pooled_sum([probs, probs * closest], pool)
        least, most = pool.sum(torch.stack([closest.amin(1).sum(), closest.amax(1).sum()])).to(exact)
        wanted = (weighted / torch.where(mass.abs() > torch.finfo(exact).eps, mass, 1)).clamp(least, most)
    total = torch.arange(mass.shape[0], device=mass.device, dtype=exact)
    return torch.dot(mass, brevity_penalties(total, wanted)).to(dtype)


def _pooled_sum(parts: list[Tensor], pool: Pool) -> list[Tensor]:
    """The distribution of the sum over all rows (B, S) of all processes, with its second part if there is one."""
    local = _sum_of_rows(parts)
    processes = [pool.stack(part) for part in local]
    return local if processes[0].shape[0] == 1 else _sum_of_rows(processes)


def _sum_of_rows(parts: list[Tensor]) -> list[Tensor]:
    """The distribution of the sum of the rows' numbers, (B, S) each to (...) each."""
    batch, size = parts[0].shape
    if batch == 0:  # certainly 0, and still part of the graph, for processes that pool
        return [part.sum().view(1) + float(index == 0) for index, part in enumerate(parts)]
    mass = parts[0] if len(parts) == 1 else torch.stack(parts)
    found = operations.sum_distribution(mass.view(len(parts), 1, batch, size))
    return [found.view(-1)] if len(parts) == 1 else list(found.squeeze(1).unbind())
