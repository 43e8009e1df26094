"""Linear recurrences in logarithmically many operations."""

import torch
from torch import Tensor

RADIX = 16
"""Terms that a round adds at least, ..."""

ELEMENTS = 2**26
"""... or as many as keep its tensors below this many numbers."""


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


class RunningProduct(torch.autograd.Function):
    """``cumprod`` along the last axis whose gradient reads nothing back, even where factors are 0."""

    @staticmethod
    def forward(ctx, values):  # type: ignore[no-untyped-def]
        """The running products."""
        products = values.cumprod(-1)
        ctx.save_for_backward(values, products)
        return products

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        """The gradient of the values."""
        values, products = ctx.saved_tensors
        return running_product_gradient(values, products, grad)


def running_product_gradient(values: Tensor, products: Tensor, grad: Tensor) -> Tensor:
    """The gradient of the values of a running product along the last axis; no division, so factors may be 0."""
    before = torch.nn.functional.pad(products[..., :-1], (1, 0), value=1.0)
    return before * suffix_sums(values, grad)


def product_of_others(values: Tensor, axis: int) -> Tensor:
    """The product of all entries along an axis but the entry itself; no division, so entries may be 0.

    >>> product_of_others(torch.tensor([2.0, 3.0, 5.0]), 0).tolist()
    [15.0, 10.0, 6.0]
    """
    size = values.shape[axis]
    both = torch.stack([values.narrow(axis, 0, size - 1), values.narrow(axis, 1, size - 1).flip(axis)])
    ends = (0, 0) * (values.dim() - axis - 1)
    running = torch.nn.functional.pad(both, (*ends, 1, 0), value=1.0).cumprod(axis + 1)
    return running[0] * running[1].flip(axis)
