"""Linear recurrences in logarithmically many operations."""

from typing import cast

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS

RADIX = 16
"""Smallest number of terms that a round adds."""

ELEMENTS = 2**26
"""A round adds more terms while its tensors have fewer numbers than this."""


def suffix_sums(factors: Tensor, terms: Tensor) -> Tensor:
    """h_t = terms_t + factors_{t+1} h_{t+1} along the last axis, h_T = 0. O(T log T) time, at most log16 T rounds.

    >>> suffix_sums(torch.tensor([5.0, 2.0, 2.0]), torch.tensor([1.0, 1.0, 1.0])).tolist()
    [7.0, 3.0, 1.0]
    """
    reach, size, skipped = 1, terms.shape[-1], 1
    radix = max(RADIX, ELEMENTS // max(1, factors.numel()))
    while reach < size:
        number = min(radix, -(-size // reach))
        products = _ahead(factors, reach, number + skipped)[..., skipped:].cumprod(-1)
        terms = terms + (products[..., :-1] * _ahead(terms, reach, number)[..., 1:]).sum(-1)
        factors, reach, skipped = products[..., -1], reach * number, 0
    return terms


def _ahead(values: Tensor, reach: int, number: int) -> Tensor:
    """The entries 0, 1, .. times ``reach`` ahead, 0 after the end: (..., T) to (..., T, number)."""
    padded = torch.nn.functional.pad(values, (0, (number - 1) * reach))
    return padded.unfold(-1, (number - 1) * reach + 1, 1)[..., ::reach]


def running_product(values: Tensor) -> Tensor:
    """``values.cumprod(-1)``. The gradient of torch's own ``cumprod`` waits for asynchronous devices (GPUs)."""
    if values.device.type in SYNCHRONOUS:
        return values.cumprod(-1)
    return cast(Tensor, _RunningProduct.apply(values))  # type: ignore[no-untyped-call]


class _RunningProduct(torch.autograd.Function):
    """``cumprod`` along the last axis. Its gradient allows factors of 0 and reads no values back."""

    @staticmethod
    def forward(ctx, values):  # type: ignore[no-untyped-def]
        products = values.cumprod(-1)
        ctx.save_for_backward(values, products)
        return products

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        values, products = ctx.saved_tensors
        before = torch.nn.functional.pad(products[..., :-1], (1, 0), value=1.0)
        return before * suffix_sums(values, grad)
