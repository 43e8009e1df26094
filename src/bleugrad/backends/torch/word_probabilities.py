"""The products of the probabilities of each word's tokens."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.operation import Outputs


def forward(keep: bool, *inputs: Tensor) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.word_probabilities`. O(T B W) time per token of a word."""
    products = _Products(inputs[0].shape, *inputs[1:])
    return (products.forward(inputs[0]),), products if keep else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the match probabilities."""
    products = forward(True, *inputs)[1] if kept is None else kept
    return (products.backward(grads[0]),)


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
