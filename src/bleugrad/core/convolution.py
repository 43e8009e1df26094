"""Convolution of many pairs of sequences, for distributions of sums."""

from typing import cast

import torch
from torch import Tensor

from bleugrad.core.operators import save_inputs


def convolve(first: Tensor, second: Tensor) -> Tensor:
    """Convolve the rows of two matrices: (P, S) and (P, U) to (P, S + U - 1), by fast Fourier transforms.

    One opaque operation, since compilers generate no code for complex numbers.

    >>> convolve(torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 2.0]])).round().tolist()
    [[1.0, 3.0, 2.0]]
    """
    return cast(Tensor, _convolve(first, second))


@torch.library.custom_op("bleugrad::convolve", mutates_args=())
def _convolve(first: Tensor, second: Tensor) -> Tensor:
    size = first.shape[1] + second.shape[1] - 1
    if first.shape[0] == 0:  # which transforms do not take
        return first.new_empty(0, size)
    return cast(Tensor, torch.fft.irfft(torch.fft.rfft(first, size) * torch.fft.rfft(second, size), size))


@_convolve.register_fake
def _(first: Tensor, second: Tensor) -> Tensor:
    return first.new_empty(first.shape[0], first.shape[1] + second.shape[1] - 1)


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    first, second = ctx.saved_tensors
    grad_first = _convolve(grad, second.flip(1))[:, second.shape[1] - 1 :][:, : first.shape[1]]
    grad_second = _convolve(grad, first.flip(1))[:, first.shape[1] - 1 :][:, : second.shape[1]]
    return grad_first, grad_second


_convolve.register_autograd(_backward, setup_context=save_inputs)
