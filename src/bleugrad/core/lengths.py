"""Hypothesis lengths, fixed or random, in tokens or words, and what follows: totals and brevity penalties."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bleugrad.core.convolution import sum_distribution
from bleugrad.core.native.kernels import Kernels, kernels_for
from bleugrad.core.pooling import Pool
from bleugrad.core.score import brevity_penalties, widest_float
from bleugrad.core.sequences import References

DIRECT_STEPS = 1024
"""Up to this many tokens the distribution of the number of words may take O(T^2) time and memory a sentence."""


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

    def mean_totals(self, max_order: int) -> Tensor:
        """E[M_n], (B, N)."""
        if self.fixed:
            return self.ngram_totals(max_order).squeeze(2)
        possible, orders = (torch.arange(size, device=self.probs.device) for size in (self.probs.shape[1], max_order))
        table = possible[:, None] - orders
        return (self.probs[..., None] * table.clamp_(min=0)).sum(1)  # a product of matrices would heed autocast

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

    1 + a sum of independent indicators: the distribution is a product of polynomials, taken one after the other where
    they are few and the compiled kernels are there, else in pairs. Exact. O(T log^2 T) time a sentence, in float64.
    """
    steps, batch = opening.shape
    kernels = kernels_for(opening) if opening.numel() and steps <= DIRECT_STEPS else None
    if kernels is not None:
        direct: Tensor = _WordCounts.apply(kernels, opening, limits)  # type: ignore[no-untyped-call]
        return Lengths(_all_lengths(batch, steps + 1, limits.device), direct)
    position = torch.arange(steps, device=limits.device)
    certain = torch.where(position == 0, 1.0, opening.t().to(widest_float(opening.device)))
    opens = torch.where(position < limits[:, None], certain, 0)
    if opens.numel() == 0:
        return Lengths(_all_lengths(batch, 1, limits.device), opens.new_ones(batch, 1).to(opening.dtype))
    probs = sum_distribution(torch.stack([1 - opens, opens], 2)[None])[0, :, : steps + 1]
    return Lengths(_all_lengths(batch, steps + 1, limits.device), probs.to(opening.dtype))


class _WordCounts(torch.autograd.Function):
    """The distribution by the compiled kernel."""

    @staticmethod
    def forward(ctx: Any, kernels: Kernels, opening: Tensor, limits: Tensor) -> Tensor:
        ctx.save_for_backward(opening, limits)
        ctx.kernels = kernels
        return kernels.word_counts(opening, limits)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        return None, ctx.kernels.word_counts_backward(grad, *ctx.saved_tensors), None


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
    if lengths.fixed:
        closest = references.closest_lengths(lengths.support)
        total, wanted = pool.sum(torch.stack([lengths.support.sum(), closest.sum()])).to(dtype)
        return brevity_penalties(total, wanted)
    exact = widest_float(lengths.probs.device)
    probs = lengths.probs.to(exact)
    if pool.largest(references.ids.shape[1], probs.device) == 1:
        (mass,), wanted = _pooled_sum([probs], pool), pool.sum(references.lengths.sum()).to(exact)
    else:
        closest = references.closest_lengths(lengths.support)
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
    found = sum_distribution(mass.view(len(parts), 1, batch, size))
    return [found.view(-1)] if len(parts) == 1 else list(found.squeeze(1).unbind())


def _all_lengths(batch: int, sizes: int, device: torch.device) -> Tensor:
    return torch.arange(sizes, device=device).expand(batch, sizes)
