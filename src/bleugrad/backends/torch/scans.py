"""Linear recurrences in logarithmically many operations."""

import torch
from torch import Tensor


def linear_scan(factors: Tensor, terms: Tensor) -> Tensor:
    """h_t = factors_t h_{t-1} + terms_t along the last axis, h_{-1} = 0. O(T log T) time, log2 T rounds.

    >>> linear_scan(torch.tensor([0.0, 2.0, 2.0]), torch.tensor([1.0, 1.0, 1.0])).tolist()
    [1.0, 3.0, 7.0]
    """
    reach, size = 1, terms.shape[-1]
    while reach < size:
        head = torch.addcmul(terms[..., reach:], factors[..., reach:], terms[..., :-reach])
        terms = torch.cat([terms[..., :reach], head], -1)
        if 2 * reach < size:
            factors = torch.cat([factors[..., :reach], factors[..., reach:] * factors[..., :-reach]], -1)
        reach *= 2
    return terms


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
    later = torch.nn.functional.pad(values[..., 1:], (0, 1))
    return before * linear_scan(later.flip(-1), grad.flip(-1)).flip(-1)
