"""Distributions of sums of independent numbers, by convolution in pairs or in groups.

Masses are convolved by fast Fourier transforms. Asynchronous devices (GPUs) multiply the transforms of sqrt(B) numbers
at once, and then those of their sums, so that the number of operations does not depend on B.
"""

import math
from typing import Any, TypeAlias

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import sum_distribution

Halves: TypeAlias = list[tuple[Tensor, Tensor, int, int]]
"""The transforms of the two halves of each level, with the number and size of its masses."""


def forward(keep: bool, mass: Tensor) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.sum_distribution`.

    O(B S log^2) time per problem by transforms in pairs, and O(B^1.5 S log) time and memory in groups. Their absolute
    error is near the precision of the dtype.

    >>> coins = torch.full((1, 1, 3, 2), 0.5, dtype=torch.float64)
    >>> [round(p, 3) for p in forward(False, coins)[0][0][0, 0, :4].tolist()]
    [0.125, 0.375, 0.375, 0.125]
    """
    if mass.numel() == 0:  # no problem at all, which transforms do not take
        return (sum_distribution.shapes(mass)[0].zero_(),), []
    if _grouped(mass):
        return convolve_groups(mass)
    top, halves = convolve_pairs(mass)
    return (top.clone(),), halves if keep else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the masses."""
    (mass,) = inputs
    if mass.numel() == 0:
        return (torch.zeros_like(mass),)
    if kept is None:
        _, kept = forward(True, mass)
    if _grouped(mass):
        return (convolve_groups_backward(grads[0], kept, mass),)
    return (convolve_pairs_backward(grads[0], kept).clone(),)


def _grouped(mass: Tensor) -> bool:
    return mass.shape[0] == 1 and mass.device.type not in SYNCHRONOUS


def convolve_groups(mass: Tensor) -> tuple[Outputs, list[Tensor]]:
    """Convolve groups of sqrt(B) numbers, then their sums: (1, P, S'), and the transforms (P, groups, numbers, F)."""
    _, problems, numbers, size = mass.shape
    radix = math.isqrt(numbers - 1) + 1
    missing = -numbers % radix
    padded = torch.nn.functional.pad(mass[0], (0, 0, 0, missing))
    padded[:, numbers:, 0] = 1  # numbers that are certainly 0
    length = radix * (size - 1) + 1
    lower = torch.fft.rfft(padded.view(problems, -1, radix, size), length)
    sums = torch.fft.irfft(lower.prod(2), length)
    total = sum_distribution.shapes(mass)[0].shape[2]
    upper = torch.fft.rfft(sums, max(total, length)).unsqueeze(1)
    return (torch.fft.irfft(upper.prod(2), max(total, length)).squeeze(1)[None, :, :total].contiguous(),), [
        lower,
        upper,
    ]


def convolve_groups_backward(grad: Tensor, spectra: list[Tensor], mass: Tensor) -> Tensor:
    """The gradient of the masses (1, P, B, S) that :func:`convolve_groups` started from."""
    numbers, size = mass.shape[2:]
    lower, upper = spectra
    length = lower.shape[2] * (size - 1) + 1
    total = max(grad.shape[2], length)
    of_sums = torch.fft.irfft(torch.fft.rfft(grad[0], total)[:, None, None] * _others(upper), total)[..., :length]
    found: Tensor = torch.fft.irfft(torch.fft.rfft(of_sums.squeeze(1), length).unsqueeze(2) * _others(lower), length)
    return found.flatten(1, 2)[None, :, :numbers, :size].contiguous()


def _others(factors: Tensor) -> Tensor:
    """The conjugate of the product of all other factors of the third axis; no factor is divided by, as it may be 0."""
    before = torch.nn.functional.pad(factors[:, :, :-1], (0, 0, 1, 0), value=1.0).cumprod(2)
    after = torch.nn.functional.pad(factors[:, :, 1:], (0, 0, 0, 1), value=1.0).flip(2).cumprod(2).flip(2)
    return (before * after).conj_physical()  # compilers run operators where lazy conjugation is not seen


def convolve_pairs(mass: Tensor) -> tuple[Tensor, Halves]:
    """Convolve adjacent pairs until one number is left: (parts, P, S'), and both halves of each level."""
    halves: Halves = []
    while mass.shape[2] > 1:
        _, _, numbers, size = mass.shape
        if numbers % 2:
            mass = torch.nn.functional.pad(mass, (0, 0, 0, 1))
            mass[0, :, -1, 0] = 1  # a number that is certainly 0
        spectrum = torch.fft.rfft(mass, _fast_length(2 * size - 1))
        even, odd = spectrum[:, :, ::2], spectrum[:, :, 1::2]
        halves.append((even, odd, numbers, size))
        mass = torch.fft.irfft(_dual_product(even, odd), _fast_length(2 * size - 1))[..., : 2 * size - 1]
    return mass[:, :, 0], halves


def convolve_pairs_backward(grad: Tensor, halves: Halves) -> Tensor:
    """The gradient of the masses (parts, P, B, S) that :func:`convolve_pairs` started from."""
    grad = grad.unsqueeze(2)
    for even, odd, numbers, size in reversed(halves):
        length = _fast_length(2 * size - 1)
        spectrum = torch.fft.rfft(grad, length).unsqueeze(3)
        found = torch.fft.irfft(_dual_adjoint(spectrum, torch.stack([odd, even], 3)), length)[..., :size]
        grad = found.flatten(2, 3)[:, :, :numbers]
    return grad


def _fast_length(size: int) -> int:
    """The next power of 2, which transforms take much faster than other lengths."""
    return 1 << (size - 1).bit_length()


def _dual_product(left: Tensor, right: Tensor) -> Tensor:
    """(a + b e) (c + d e) with e^2 = 0, the parts on the first axis."""
    if left.shape[0] == 1:
        return left * right
    return torch.stack([left[0] * right[0], left[0] * right[1] + left[1] * right[0]])


def _dual_adjoint(grad: Tensor, other: Tensor) -> Tensor:
    """The gradient of one factor of :func:`_dual_product`."""
    other = other.conj_physical()  # compilers run operators where lazy conjugation is not seen
    if grad.shape[0] == 1:
        return grad * other
    return torch.stack([grad[0] * other[0] + grad[1] * other[1], grad[1] * other[0]])
