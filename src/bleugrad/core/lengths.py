"""Hypothesis lengths, fixed or random, in tokens or words, and what follows: totals and brevity penalties."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.core.convolution import sum_distribution
from bleugrad.core.pooling import Pool
from bleugrad.core.score import brevity_penalties, widest_float
from bleugrad.core.sequences import References


@dataclass(frozen=True)
class Lengths:
    """The possible lengths of each hypothesis, ``support`` (B, S) long, with their probabilities ``probs`` (B, S).

    A ``fixed`` length is S = 1 with probability 1; a random one has the support 0..T.
    """

    support: Tensor
    probs: Tensor
    fixed: bool = False

    def mean(self) -> Tensor:
        """E[length], (B,)."""
        return (self.support * self.probs).sum(1)

    def ngram_totals(self, max_order: int) -> Tensor:
        """M_n = max(length - n + 1, 0) for every possible length: (B, N, S)."""
        orders = torch.arange(max_order, device=self.support.device)
        return (self.support[:, None, :] - orders[None, :, None]).clamp(min=0).to(self.probs.dtype)


@dataclass(frozen=True)
class Stopping:
    """How sequences end before their first EOS, or at their limit.

    ``alive`` (T, B) is the probability that token t is not EOS, ``survival`` (T, B) that none of the tokens 0..t is,
    and ``stop`` (B, T + 1) that a hypothesis which has reached length l ends there.
    """

    alive: Tensor
    survival: Tensor
    stop: Tensor


def fixed_lengths(lengths: Tensor, dtype: torch.dtype) -> Lengths:
    """Known lengths (B,)."""
    return Lengths(lengths[:, None], torch.ones_like(lengths[:, None], dtype=dtype), fixed=True)


def stopping(eos_probs: Tensor, limits: Tensor) -> Stopping:
    """From the probability of EOS at each position (B, T), and the number of positions of each sentence (B,)."""
    steps = eos_probs.shape[1]
    position = torch.arange(steps + 1, device=limits.device)
    stop = torch.where(position[:steps] < limits[:, None], eos_probs, 0)
    alive = 1 - stop
    at_limit = (position == limits[:, None]).to(stop.dtype)
    return Stopping(alive.t(), alive.cumprod(1).t(), torch.nn.functional.pad(stop, (0, 1)) + at_limit)


def random_lengths(ending: Stopping) -> Lengths:
    """Lengths in tokens.

    ``P(length = l) = P(length >= l) * p[l, EOS]`` for l below the limit, with
    ``P(length >= l) = prod_{s < l} (1 - p[s, EOS])``; what is left falls on the limit. Exact.
    """
    batch, sizes = ending.stop.shape
    reached = torch.cat([ending.stop.new_ones(batch, 1), ending.survival.t()], 1)
    return Lengths(_all_lengths(batch, sizes, ending.stop.device), reached * ending.stop)


def word_counts(opening: Tensor, limits: Tensor) -> Lengths:
    """Lengths in words of hypotheses with ``limits`` (B,) tokens, token t opening a word with probability (T, B).

    1 + a sum of independent indicators: the distribution is a product of polynomials, taken in pairs. Exact.
    O(T log^2 T) time a sentence, in float64.
    """
    steps, batch = opening.shape
    position = torch.arange(steps, device=limits.device)
    certain = torch.where(position == 0, 1.0, opening.t().to(widest_float(opening.device)))
    opens = torch.where(position < limits[:, None], certain, 0)
    if opens.numel() == 0:
        return Lengths(_all_lengths(batch, 1, limits.device), opens.new_ones(batch, 1).to(opening.dtype))
    probs = sum_distribution(torch.stack([1 - opens, opens], 2)[None])[0, :, : steps + 1]
    return Lengths(_all_lengths(batch, steps + 1, limits.device), probs.to(opening.dtype))


def random_word_counts(opening: Tensor, ending: Stopping) -> Lengths:
    """Lengths in words where the length in tokens is random: ``opening`` (T, B), probability that token t opens a word.

    f_t[w], the probability of reaching token t with w words, follows token by token. Exact. O(T^2) time a sentence.
    """
    steps, batch = opening.shape
    reached = torch.nn.functional.pad(opening.new_ones(batch, 1), (0, steps))
    probs = reached * ending.stop[:, :1]
    for step in range(steps):
        alive = ending.alive[step][:, None]
        opens = alive if step == 0 else opening[step][:, None]
        longer = torch.nn.functional.pad(reached[:, :-1], (1, 0))
        reached = reached * (alive - opens) + longer * opens
        probs = probs + reached * ending.stop[:, step + 1 : step + 2]
    return Lengths(_all_lengths(batch, steps + 1, opening.device), probs)


def expected_brevity_penalty(lengths: Lengths, references: References) -> Tensor:
    """E[BP] = sum_l P(length = l) BP(l, r(l)), r(l) the reference length closest to l: (B,), exact."""
    return (lengths.probs * penalty_by_length(lengths, references)).sum(1)


def penalty_by_length(lengths: Lengths, references: References) -> Tensor:
    """BP(l, r(l)) for every possible length: (B, S)."""
    dtype = lengths.probs.dtype
    return brevity_penalties(lengths.support.to(dtype), references.closest_lengths(lengths.support).to(dtype))


def pooled_brevity_penalty(lengths: Lengths, references: References, pool: Pool) -> Tensor:
    """E[BP(c, r)] of the summed lengths c and r of a batch, a scalar.

    The distribution of c is the convolution of the sentences' own. Exact where r does not vary with the lengths (one
    reference each, or one sentence); elsewhere r is replaced by E[r | c].

    O(B T log^2) time by fast Fourier transforms, in float64.
    """
    dtype = lengths.probs.dtype
    closest = references.closest_lengths(lengths.support)
    if lengths.fixed:
        total, wanted = pool.sum(torch.stack([lengths.support.sum(), closest.sum()]).to(dtype))
        return brevity_penalties(total, wanted)
    exact = widest_float(lengths.probs.device)
    probs = lengths.probs.to(exact)
    parts = [probs] if references.ids.shape[1] == 1 else [probs, probs * closest]
    local = _sum_of_rows(torch.stack(parts))
    mass = torch.stack([pool.stack(part) for part in local])
    mass = _sum_of_rows(mass) if mass.shape[1] > 1 else mass[:, 0]
    least, most = pool.sum(torch.stack([closest.amin(1).sum(), closest.amax(1).sum()]).to(exact))
    total = torch.arange(mass.shape[1], device=mass.device, dtype=exact)
    wanted = most
    if len(parts) == 2:
        wanted = mass[1] / torch.where(mass[0].abs() > torch.finfo(exact).eps, mass[0], 1)
        wanted = wanted.clamp(least, most)
    return (mass[0] * brevity_penalties(total, wanted)).sum().to(dtype)


def _sum_of_rows(mass: Tensor) -> Tensor:
    """The distribution of the sum of the rows' numbers: (parts, B, S) to (parts, ...)."""
    if mass.shape[1] == 0:  # certainly 0, and still part of the graph, for processes that pool
        return mass.sum((1, 2), keepdim=True)[:, :, 0] + torch.eye(
            mass.shape[0], 1, dtype=mass.dtype, device=mass.device
        )
    return sum_distribution(mass[:, None])[:, 0]


def _all_lengths(batch: int, sizes: int, device: torch.device) -> Tensor:
    return torch.arange(sizes, device=device).expand(batch, sizes)
