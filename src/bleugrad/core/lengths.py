"""Hypothesis lengths, fixed or random, in tokens or words, and what follows: totals and brevity penalties."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.core.convolution import convolve
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
    factors = torch.stack([1 - opens, opens], 2)
    while factors.shape[1] > 1:
        if factors.shape[1] % 2:
            unit = torch.nn.functional.pad(factors.new_ones(batch, 1, 1), (0, factors.shape[2] - 1))
            factors = torch.cat([factors, unit], 1)
        size = factors.shape[2]
        pairs = factors.reshape(-1, 2, size)
        factors = convolve(pairs[:, 0], pairs[:, 1]).view(batch, factors.shape[1] // 2, 2 * size - 1)
    probs = factors[:, 0, : steps + 1] if steps else factors.new_ones(batch, 1)
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
    local_mass, local_wanted_mass = _convolve_all(probs, probs * closest)
    mass, wanted_mass = _convolve_all(pool.stack(local_mass), pool.stack(local_wanted_mass))
    least, most = pool.sum(torch.stack([closest.amin(1).sum(), closest.amax(1).sum()]).to(exact))
    wanted = wanted_mass / torch.where(mass.abs() > torch.finfo(exact).eps, mass, 1)
    total = torch.arange(mass.shape[0], device=mass.device, dtype=exact)
    return (mass * brevity_penalties(total, wanted.clamp(least, most))).sum().to(dtype)


def _all_lengths(batch: int, sizes: int, device: torch.device) -> Tensor:
    return torch.arange(sizes, device=device).expand(batch, sizes)


def _convolve_all(mass: Tensor, weighted: Tensor) -> tuple[Tensor, Tensor]:
    """Convolve all rows of ``mass`` (B, S): P(sum = .). With ``weighted`` = r * mass also E[sum of r; sum = .]."""
    if mass.shape[0] == 0:  # certainly 0, and still part of the graph, for processes that pool
        return mass.sum() + mass.new_ones(1), weighted.sum() + weighted.new_zeros(1)
    while mass.shape[0] > 1:
        if mass.shape[0] % 2:
            nothing = torch.zeros_like(mass[:1])
            certainty = torch.nn.functional.pad(mass.new_ones(1, 1), (0, mass.shape[1] - 1))
            mass, weighted = torch.cat([mass, certainty]), torch.cat([weighted, nothing])
        even, odd = mass[::2], mass[1::2]
        mass, weighted = convolve(even, odd), convolve(even, weighted[1::2]) + convolve(weighted[::2], odd)
    return mass[0], weighted[0]
