"""Distributions of sums: the product of all transforms of a group, and the products of all but one, in a kernel."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bleugrad.backends.operation import Outputs
from bleugrad.backends.torch.sum_distribution import transform_groups, transform_groups_backward
from bleugrad.backends.triton.launching import launch


@triton.jit
def product_kernel(spectra, out, numbers, size, BLOCK: tl.constexpr):
    """The product over the numbers of (groups, numbers, size) complex values, as (..., 2) real ones."""
    group = tl.program_id(0).to(tl.int64)
    f = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real, imaginary = tl.full([BLOCK], 1.0, tl.float64), tl.zeros([BLOCK], tl.float64)
    for number in range(numbers):
        at = 2 * ((group * numbers + number) * size + f)
        a, b = tl.load(spectra + at, f < size, 0), tl.load(spectra + at + 1, f < size, 0)
        real, imaginary = real * a - imaginary * b, real * b + imaginary * a
    tl.store(out + 2 * (group * size + f), real, f < size)
    tl.store(out + 2 * (group * size + f) + 1, imaginary, f < size)


@triton.jit
def others_kernel(spectra, grad, out, numbers, size, BLOCK: tl.constexpr):
    """``grad`` (groups, size) times the conjugate product of all numbers but one, for each: as the spectra."""
    group = tl.program_id(0).to(tl.int64)
    f = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real, imaginary = tl.full([BLOCK], 1.0, tl.float64), tl.zeros([BLOCK], tl.float64)
    for number in range(numbers):
        at = 2 * ((group * numbers + number) * size + f)
        tl.store(out + at, real, f < size)
        tl.store(out + at + 1, imaginary, f < size)
        a, b = tl.load(spectra + at, f < size, 0), tl.load(spectra + at + 1, f < size, 0)
        real, imaginary = real * a - imaginary * b, real * b + imaginary * a
    tl.debug_barrier()
    from_grad = 2 * (group * size + f)
    real, imaginary = tl.load(grad + from_grad, f < size, 0), tl.load(grad + from_grad + 1, f < size, 0)
    for i in range(numbers):
        at = 2 * ((group * numbers + numbers - 1 - i) * size + f)
        a, b = tl.load(out + at, f < size, 0), tl.load(out + at + 1, f < size, 0)
        tl.store(out + at, real * a + imaginary * b, f < size)
        tl.store(out + at + 1, imaginary * a - real * b, f < size)
        a, b = tl.load(spectra + at, f < size, 0), tl.load(spectra + at + 1, f < size, 0)
        real, imaginary = real * a + imaginary * b, imaginary * a - real * b


def forward(keep: bool, mass: Tensor) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.sum_distribution`."""
    if mass.dtype != torch.float64 or mass.shape[0] != 1 or not mass.numel():
        return None
    top, kept = transform_groups(mass, _product)
    return (top,), kept if keep else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the masses."""
    if kept is None:
        result = forward(True, *inputs)
        if result is None:
            return None
        kept = result[1]
    return (transform_groups_backward(grads[0], kept, _others),)


def _product(spectra: Tensor) -> Tensor:
    """The product over the second last axis but one: (1, P, G, numbers, F) to (1, P, G, F)."""
    out = spectra.new_empty(*spectra.shape[:3], spectra.shape[4])
    _launch(product_kernel, spectra, torch.view_as_real(out))
    return out


def _others(grad: Tensor, spectra: Tensor) -> Tensor:
    out = torch.empty_like(spectra)
    _launch(others_kernel, spectra, torch.view_as_real(grad.contiguous()), torch.view_as_real(out))
    return out


def _launch(kernel: Any, spectra: Tensor, *tensors: Tensor) -> None:
    *groups, numbers, size = spectra.shape
    grid = (groups[0] * groups[1] * groups[2], triton.cdiv(size, 256))
    launch(kernel, grid, torch.view_as_real(spectra), *tensors, numbers, size, BLOCK=256)
