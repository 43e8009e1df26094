"""Distributions of sums of independent numbers, by convolution in pairs."""

import torch
from torch import Tensor

from bleugrad.core.native.kernels import kernels_for
from bleugrad.core.operators import keep_run, refuse_double_backward, save_inputs

DIRECT_SIZE = 512
"""Up to this size two masses are convolved directly: faster in compiled kernels, and exact to relative precision."""


def sum_distribution(mass: Tensor) -> Tensor:
    """The distribution of the sum of B independent numbers: (1, P, B, S) to (1, P, at least B (S - 1) + 1). Exact.

    ``mass[0, p, b, k]`` is the probability that number b of problem p is k. With a second part, (2, P, B, S), of r
    times the first, r a function of b and k, the result's second part is E[sum of r; sum = .].

    O(B S log^2) time a problem by fast Fourier transforms; absolute error near the precision of the dtype. Masses of up
    to ``DIRECT_SIZE`` without a second part are convolved directly: their sums have full relative precision, so that
    what is impossible has probability 0. One opaque operation, since compilers generate no code for complex numbers.

    >>> coins = torch.full((1, 1, 3, 2), 0.5, dtype=torch.float64)
    >>> [round(p, 3) for p in sum_distribution(coins)[0, 0, :4].tolist()]
    [0.125, 0.375, 0.375, 0.125]
    """
    return keep_run(_Tree, _sum_distribution, _sum_distribution_backward, mass)


@torch.library.custom_op("bleugrad::sum_distribution", mutates_args=())
def _sum_distribution(mass: Tensor) -> Tensor:
    return _Tree(mass).value.clone()


@torch.library.custom_op("bleugrad::sum_distribution_backward", mutates_args=())
def _sum_distribution_backward(grad: Tensor, mass: Tensor) -> Tensor:
    return _Tree(mass).backward(grad).clone()


@_sum_distribution.register_fake
def _(mass: Tensor) -> Tensor:
    return mass.new_empty(_top_shape(mass))


def _top_shape(mass: Tensor) -> tuple[int, int, int]:
    parts, problems, numbers, size = mass.shape
    while numbers > 1:
        numbers, size = (numbers + 1) // 2, 2 * size - 1
    return parts, problems, size


@_sum_distribution_backward.register_fake
def _(grad: Tensor, mass: Tensor) -> Tensor:
    return torch.empty_like(mass)


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    return _sum_distribution_backward(grad, *ctx.saved_tensors)


_sum_distribution.register_autograd(_backward, setup_context=save_inputs)
refuse_double_backward(_sum_distribution_backward)


class _Tree:
    """Neighbours convolved level by level, directly where masses are small, else by transforms.

    ``sums`` are the results of the first ``levels``, convolved by kernels, and ``halves`` the two halves of each level
    after them, or their transforms.
    """

    def __init__(self, mass: Tensor) -> None:
        self.levels = 0
        self.halves: list[tuple[Tensor, Tensor, int, int]] = []
        self.like = mass
        if mass.numel() == 0:  # no problem at all, which transforms do not take
            self.value = mass.new_zeros(_top_shape(mass))
            return
        self.kernels = kernels_for(mass) if mass.shape[0] == 1 else None
        if self.kernels is not None and (levels := _direct_levels(*mass.shape[2:])):
            self.levels = levels
            mass, self.sums = self.kernels.sum_levels(mass, levels)
        while mass.shape[2] > 1:
            parts, problems, numbers, size = mass.shape
            if numbers % 2:
                nothing = mass.new_zeros(parts, problems, 1, size)
                nothing[0, :, :, 0] = 1
                mass = torch.cat([mass, nothing], 2)
            even, odd = mass[:, :, ::2], mass[:, :, 1::2]
            direct = parts == 1 and size <= DIRECT_SIZE
            if not direct:
                even, odd = (torch.fft.rfft(half, 2 * size - 1) for half in (even, odd))
            self.halves.append((even, odd, numbers, size))
            mass = _convolve(even, odd) if direct else torch.fft.irfft(_dual_product(even, odd), 2 * size - 1)
        self.value = mass[:, :, 0]

    def backward(self, grad: Tensor) -> Tensor:
        """The cotangent of the numbers' masses."""
        if self.like.numel() == 0:
            return torch.zeros_like(self.like)
        grad = grad.unsqueeze(2)
        for even, odd, numbers, size in reversed(self.halves):
            if even.is_complex():
                spectrum = torch.fft.rfft(grad, 2 * size - 1)
                halves = [
                    torch.fft.irfft(_dual_adjoint(spectrum, other), 2 * size - 1)[..., :size] for other in (odd, even)
                ]
            else:
                halves = [_convolve(grad, other.flip(-1))[..., size - 1 : 2 * size - 1] for other in (odd, even)]
            grad = torch.stack(halves, 3).flatten(2, 3)[:, :, :numbers]
        if self.kernels is not None and self.levels:
            grad = self.kernels.sum_levels_backward(grad, self.like, self.levels, self.sums)
        return grad


def _direct_levels(numbers: int, size: int) -> int:
    """How many levels are convolved directly."""
    levels = 0
    while numbers > 1 and size <= DIRECT_SIZE:
        numbers, size, levels = (numbers + 1) // 2, 2 * size - 1, levels + 1
    return levels


def _convolve(left: Tensor, right: Tensor) -> Tensor:
    """The convolution of (..., L) and (..., S), (..., L + S - 1), one vector operation for each of the S."""
    size = left.shape[-1]
    sums = left.new_zeros(*left.shape[:-1], size + right.shape[-1] - 1)
    for shift, factor in enumerate(right.split(1, -1)):
        sums[..., shift : shift + size].addcmul_(left, factor)
    return sums


def _dual_product(left: Tensor, right: Tensor) -> Tensor:
    """(a + b e) (c + d e) with e^2 = 0, the parts on the first axis."""
    if left.shape[0] == 1:
        return left * right
    return torch.stack([left[0] * right[0], left[0] * right[1] + left[1] * right[0]])


def _dual_adjoint(grad: Tensor, other: Tensor) -> Tensor:
    """The cotangent of one factor of :func:`_dual_product`."""
    other = other.conj()
    if grad.shape[0] == 1:
        return grad * other
    return torch.stack([grad[0] * other[0] + grad[1] * other[1], grad[1] * other[0]])
