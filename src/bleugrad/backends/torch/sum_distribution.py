"""Distributions of sums of independent numbers, by convolution in pairs.

Small masses are convolved directly: their sums have full relative precision, so that what is impossible has probability
0. Larger masses, and those with a second part, are convolved by fast Fourier transforms.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.operation import Outputs
from bleugrad.backends.operations import sum_distribution
from bleugrad.backends.torch.scans import product_of_others

Halves: TypeAlias = list[tuple[Tensor, Tensor, int, int]]
"""The two halves of each level, or their transforms, with the number and size of its masses."""

DIRECT_SIZE = 512
"""Up to this size two masses are convolved directly."""

GROUP = 512
"""Numbers whose transforms are multiplied at once, where few operations matter more than their work."""


def forward(keep: bool, mass: Tensor) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.sum_distribution`.

    O(B S log^2) time per problem by transforms, whose absolute error is near the precision of the dtype.

    >>> coins = torch.full((1, 1, 3, 2), 0.5, dtype=torch.float64)
    >>> [round(p, 3) for p in forward(False, coins)[0][0][0, 0, :4].tolist()]
    [0.125, 0.375, 0.375, 0.125]
    """
    if mass.numel() == 0:  # no problem at all, which transforms do not take
        return (sum_distribution.shapes(mass)[0].zero_(),), []
    if _grouped(mass):
        top, spectra = transform_groups(mass, _product)
        return (top,), spectra if keep else None
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
        return (transform_groups_backward(grads[0], kept, _others),)
    return (convolve_pairs_backward(grads[0], kept).clone(),)


def transform_groups(mass: Tensor, product: Callable[[Tensor], Tensor]) -> tuple[Tensor, list[tuple[Tensor, int, int]]]:
    """Multiply the transforms of :data:`GROUP` numbers at once: (parts, P, B, S) to (parts, P, S').

    A group takes three operations whatever its size. O(B^2 S) memory up to B = 512, then 512 B S. Returns the spectra
    of each level, too, with the number and size of its masses.
    """
    kept, size = [], sum_distribution.shapes(mass)[0].shape[2]
    while True:
        parts, problems, numbers, own = mass.shape
        group = min(numbers, GROUP)
        if numbers % group:
            zero = mass.new_zeros(parts, problems, -numbers % group, own)  # numbers that are certainly 0
            zero[:1, :, :, :1] = 1
            mass = torch.cat([mass, zero], 2)
        last = mass.shape[2] == group
        length = size if last else group * (own - 1) + 1
        spectra = torch.fft.rfft(mass.view(parts, problems, -1, group, own), length)
        kept.append((spectra, numbers, own))
        mass = torch.fft.irfft(product(spectra), length)
        if last:
            return mass[:, :, 0], kept


def transform_groups_backward(
    grad: Tensor, kept: list[tuple[Tensor, int, int]], others: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """The gradient of the masses that :func:`transform_groups` started from."""
    grad = grad.unsqueeze(2)
    for spectra, numbers, size in reversed(kept):
        length = grad.shape[3]
        found = torch.fft.irfft(others(torch.fft.rfft(grad, length), spectra), length)[..., :size]
        grad = found.flatten(2, 3)[:, :, :numbers]
    return grad


def _grouped(mass: Tensor) -> bool:
    return mass.shape[0] == 1 and mass.device.type not in SYNCHRONOUS


def _product(spectra: Tensor) -> Tensor:
    """The product over the second last axis."""
    return spectra.prod(3)


def _others(grad: Tensor, spectra: Tensor) -> Tensor:
    """The adjoint of :func:`_product`: times the product of all entries but one, for each."""
    return grad.unsqueeze(3) * product_of_others(spectra, 3).conj_physical()


def convolve_pairs(mass: Tensor) -> tuple[Tensor, Halves]:
    """Convolve adjacent pairs until one number is left: (parts, P, S'), and both halves of each level."""
    halves: Halves = []
    while mass.shape[2] > 1:
        parts, problems, numbers, size = mass.shape
        if numbers % 2:
            zero = mass.new_zeros(parts, problems, 1, size)  # a number that is certainly 0
            zero[0, :, :, 0] = 1
            mass = torch.cat([mass, zero], 2)
        even, odd = mass[:, :, ::2], mass[:, :, 1::2]
        direct = parts == 1 and size <= DIRECT_SIZE
        if not direct:
            even, odd = (torch.fft.rfft(half, 2 * size - 1) for half in (even, odd))
        halves.append((even, odd, numbers, size))
        mass = _convolve(even, odd) if direct else torch.fft.irfft(_dual_product(even, odd), 2 * size - 1)
    return mass[:, :, 0], halves


def convolve_pairs_backward(grad: Tensor, halves: Halves) -> Tensor:
    """The gradient of the masses (parts, P, B, S) that :func:`convolve_pairs` started from."""
    grad = grad.unsqueeze(2)
    for even, odd, numbers, size in reversed(halves):
        if even.is_complex():
            spectrum = torch.fft.rfft(grad, 2 * size - 1)
            pair = [torch.fft.irfft(_dual_adjoint(spectrum, other), 2 * size - 1)[..., :size] for other in (odd, even)]
        else:
            pair = [_convolve(grad, other.flip(-1))[..., size - 1 : 2 * size - 1] for other in (odd, even)]
        grad = torch.stack(pair, 3).flatten(2, 3)[:, :, :numbers]
    return grad


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
    """The gradient of one factor of :func:`_dual_product`."""
    other = other.conj_physical()  # compilers run operators where lazy conjugation is not seen
    if grad.shape[0] == 1:
        return grad * other
    return torch.stack([grad[0] * other[0] + grad[1] * other[1], grad[1] * other[0]])
