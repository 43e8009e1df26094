"""The products of the probabilities of each word's tokens."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.operation import Outputs


def forward(keep: bool, *inputs: Tensor) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.word_probabilities`. O(T B W) time per token of a word."""
    if inputs[0].device.type not in SYNCHRONOUS:
        with torch.no_grad():
            return (_doubled_products(*inputs),), None
    products = _Products(inputs[0].shape, *inputs[1:])
    return (products.forward(inputs[0]),), products if keep else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the match probabilities."""
    if inputs[0].device.type not in SYNCHRONOUS:
        with torch.enable_grad():
            leaf = inputs[0].detach().requires_grad_()
            found = _doubled_products(leaf, *inputs[1:])
        return torch.autograd.grad(found, leaf, grads[0])
    products = forward(True, *inputs)[1] if kept is None else kept
    return (products.backward(grads[0]),)


def _doubled_products(match_probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> Tensor:
    """The products, (T, B, W): a word of s tokens is made of runs of 2^k tokens, one for each binary digit of s.

    The number of operations depends on the shapes alone. O(T B L log T) memory.
    """
    steps, batch, columns = match_probs.shape
    position = torch.arange(steps, device=spans.device)[:, None, None]
    used, product, size = torch.zeros_like(spans), (spans <= steps).to(match_probs.dtype), 1
    runs = match_probs  # of ``size`` tokens, ending at position t and column j
    while True:
        digit = (spans // size) % 2 == 1
        at = (position - used).clamp(min=0) * columns + (starts + spans - 1 - used).clamp(min=0)
        found = runs.transpose(0, 1).flatten(1).gather(1, at.clamp(max=steps * columns - 1).transpose(0, 1).flatten(1))
        found = found.view(batch, steps, -1).transpose(0, 1)
        product = product * torch.where(digit, found * (position >= used), 1)
        used = used + digit * size
        if 2 * size > min(steps, columns):
            break
        shorter = torch.nn.functional.pad(runs[:-size, :, :-size], (size, 0, 0, 0, size, 0))
        runs, size = runs * shorter, 2 * size
    return product * (~continued | (position == spans - 1))


class _Products:
    """The products, from the last token of each word backwards; only longer words take part in later factors."""

    def __init__(self, shape: torch.Size, starts: Tensor, spans: Tensor, continued: Tensor) -> None:
        self.shape, self.spans = shape, spans
        steps, batch, columns = shape
        row = torch.arange(batch, device=starts.device)[:, None] * columns
        self.last = (row + starts + spans - 1).reshape(-1)
        position = torch.arange(steps, device=starts.device)[:, None]
        self.allowed = ~continued.reshape(-1) | (position == spans.reshape(-1) - 1)
        self.factors: list[tuple[int, Tensor, Tensor, Tensor, Tensor]] = []

    def forward(self, match_probs: Tensor) -> Tensor:
        """The products, (T, B, W)."""
        spans, steps = self.spans, self.shape[0]
        flat = match_probs.reshape(steps, self.shape[1] * self.shape[2])
        probs = flat[:, self.last]
        for back in range(1, int(spans.max()) if spans.numel() else 1):
            longer = (spans.reshape(-1) > back).nonzero().squeeze(1)
            source = self.last[longer] - back
            token, tail = flat[:, source], probs[:, longer]
            product = torch.zeros_like(tail)
            product[back:] = tail[back:] * token[: max(steps - back, 0)]
            probs[:, longer] = product
            self.factors.append((back, longer, source, token, tail))
        return (probs * self.allowed).view(steps, *spans.shape)

    def backward(self, grad: Tensor) -> Tensor:
        """The gradient of ``match_probs``."""
        steps = self.shape[0]
        flat = grad.new_zeros(steps, self.shape[1] * self.shape[2])
        grad = grad.reshape(self.allowed.shape) * self.allowed
        for back, longer, source, token, tail in reversed(self.factors):
            own, kept = grad[:, longer], max(steps - back, 0)
            grad_token, grad_tail = torch.zeros_like(own), torch.zeros_like(own)
            grad_token[:kept] = own[back:] * tail[back:]
            grad_tail[back:] = own[back:] * token[:kept]
            flat.index_add_(1, source, grad_token)
            grad[:, longer] = grad_tail
        flat.index_add_(1, self.last, grad)
        return flat.view(self.shape)
