"""Hypothesis lengths, fixed or random, and what follows from them alone: totals and brevity penalties."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.core.pooling import Pool
from bleugrad.core.score import brevity_penalties, widest_float
from bleugrad.core.sequences import References


@dataclass(frozen=True)
class Lengths:
    """The possible lengths of each hypothesis with their probabilities.

    ``support`` (B, S) long and ``probs`` (B, S). A fixed length is S = 1 with probability 1; a random one has the
    support 0..T, and then ``alive`` (T, B) is the probability that token t is not EOS, ``survival`` (T, B) that none of
    the tokens 0..t is, and ``stop`` (B, T + 1) that a hypothesis which has reached length l ends there.
    """

    support: Tensor
    probs: Tensor
    alive: Tensor | None = None
    survival: Tensor | None = None
    stop: Tensor | None = None

    def mean(self) -> Tensor:
        """E[length], (B,)."""
        return (self.support * self.probs).sum(1)

    def ngram_totals(self, max_order: int) -> Tensor:
        """M_n = max(length - n + 1, 0) for every possible length: (B, N, S)."""
        orders = torch.arange(max_order, device=self.support.device)
        return (self.support[:, None, :] - orders[None, :, None]).clamp(min=0).to(self.probs.dtype)


def fixed_lengths(lengths: Tensor, dtype: torch.dtype) -> Lengths:
    """Known lengths (B,)."""
    return Lengths(support=lengths[:, None], probs=torch.ones_like(lengths[:, None], dtype=dtype))


def random_lengths(eos_probs: Tensor, limits: Tensor) -> Lengths:
    """Lengths of sequences that end before their first EOS, or at their limit.

    ``P(length = l) = P(length >= l) * p[l, EOS]`` for l below the limit, with
    ``P(length >= l) = prod_{s < l} (1 - p[s, EOS])``; what is left falls on the limit. Exact.

    Args:
        eos_probs: (B, T), probability of EOS at each position.
        limits: (B,), number of positions of each sentence.
    """
    steps = eos_probs.shape[1]
    support = torch.arange(steps + 1, device=limits.device).expand(limits.shape[0], steps + 1)
    within = support[:, :steps] < limits[:, None]
    stop = torch.where(within, eos_probs, 0)
    alive = 1 - stop
    survival = alive.cumprod(1)
    reached = torch.cat([survival.new_ones(survival.shape[0], 1), survival], 1)
    at_limit = (support == limits[:, None]).to(stop.dtype)
    stop = torch.nn.functional.pad(stop, (0, 1)) + at_limit
    return Lengths(support=support, probs=reached * stop, alive=alive.t(), survival=survival.t(), stop=stop)


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
    if lengths.alive is None:
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


def _convolve_all(mass: Tensor, weighted: Tensor) -> tuple[Tensor, Tensor]:
    """Convolve all rows of ``mass`` (B, S): P(sum = .). With ``weighted`` = r * mass also E[sum of r; sum = .]."""
    if mass.shape[0] == 0:
        return mass.new_ones(1), mass.new_zeros(1)
    while mass.shape[0] > 1:
        if mass.shape[0] % 2:
            nothing = torch.zeros_like(mass[:1])
            certainty = torch.nn.functional.pad(mass.new_ones(1, 1), (0, mass.shape[1] - 1))
            mass, weighted = torch.cat([mass, certainty]), torch.cat([weighted, nothing])
        even, odd = mass[::2], mass[1::2]
        mass, weighted = _convolve(even, odd), _convolve(even, weighted[1::2]) + _convolve(weighted[::2], odd)
    return mass[0], weighted[0]


@torch.library.custom_op("bleugrad::convolve", mutates_args=())
def _convolve(first: Tensor, second: Tensor) -> Tensor:
    """Convolve the rows of two matrices: (P, S) and (P, U) to (P, S + U - 1). Opaque to compilers."""
    size = first.shape[1] + second.shape[1] - 1
    convolved: Tensor = torch.fft.irfft(torch.fft.rfft(first, size) * torch.fft.rfft(second, size), size)
    return convolved


@_convolve.register_fake
def _(first: Tensor, second: Tensor) -> Tensor:
    return first.new_empty(first.shape[0], first.shape[1] + second.shape[1] - 1)


def _convolve_backward(ctx, grad):  # type: ignore[no-untyped-def]
    first, second = ctx.saved_tensors
    grad_first = _convolve(grad, second.flip(1))[:, second.shape[1] - 1 :][:, : first.shape[1]]
    grad_second = _convolve(grad, first.flip(1))[:, first.shape[1] - 1 :][:, : second.shape[1]]
    return grad_first, grad_second


_convolve.register_autograd(
    _convolve_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
)
