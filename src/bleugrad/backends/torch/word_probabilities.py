"""The products of the probabilities of each word's tokens."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.operation import Outputs


def forward(keep: bool, *inputs: Tensor) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.word_probabilities`. O(T B W) time per token of a word."""
    if inputs[0].device.type not in SYNCHRONOUS:
        doubled = _DoubledProducts(*inputs)
        return (doubled.products(),), doubled if keep else None
    products = _Products(inputs[0].shape, *inputs[1:])
    return (products.forward(inputs[0]),), products if keep else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the match probabilities."""
    if inputs[0].device.type not in SYNCHRONOUS:
        return ((_DoubledProducts(*inputs) if kept is None else kept).backward(grads[0]),)
    products = forward(True, *inputs)[1] if kept is None else kept
    return (products.backward(grads[0]),)


class _DoubledProducts:
    """The products, (T, B, W): a word of s tokens is made of runs of 2^k tokens, one for each binary digit of s.

    The number of operations depends on the shapes alone. O(T B (L + W) log T) memory.
    """

    def __init__(self, match_probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> None:
        steps, batch, columns = match_probs.shape
        position = torch.arange(steps, device=spans.device)[:, None, None]
        self.allowed = (~continued | (position == spans - 1)) & (spans <= min(steps, columns))
        self.runs, self.index, self.inside, self.factors = [match_probs], [], [], []
        used, size = torch.zeros_like(spans), 1
        while True:
            digit = (spans // size) % 2 == 1
            row = (position - used).clamp(min=0) * batch + torch.arange(batch, device=spans.device)[:, None]
            index = row * columns + (starts + spans - 1 - used).clamp(0, columns - 1)
            inside = digit & (position >= used)
            found = self.runs[-1].reshape(-1)[index] * inside + ~digit
            self.index.append(index)
            self.inside.append(inside)
            self.factors.append(found)
            if 2 * size > min(steps, columns):
                break
            used, size = used + digit * size, 2 * size
            self.runs.append(self.runs[-1] * self._earlier(self.runs[-1], size // 2))

    def products(self) -> Tensor:
        """The products, (T, B, W)."""
        return torch.stack(self.factors).prod(0) * self.allowed

    @staticmethod
    def _earlier(runs: Tensor, size: int) -> Tensor:
        """The run that ends ``size`` tokens earlier, 0 before the start."""
        return torch.nn.functional.pad(runs[:-size, :, :-size], (size, 0, 0, 0, size, 0))

    def backward(self, grad: Tensor) -> Tensor:
        """The gradient of ``match_probs``."""
        grad = grad * self.allowed
        shorter = [torch.ones_like(grad)]
        for factor in self.factors[:-1]:
            shorter.append(shorter[-1] * factor)
        of_runs = torch.zeros_like(self.runs[-1])
        for level in range(len(self.runs) - 1, -1, -1):
            runs, size = self.runs[level], 2**level
            if level < len(self.runs) - 1:
                of_longer = of_runs
                of_runs = of_longer * self._earlier(runs, size)
                of_runs[:-size, :, :-size] += (of_longer * runs)[size:, :, size:]
            share = grad * shorter[level] * self.inside[level]
            of_runs = of_runs.contiguous()
            of_runs.view(-1).index_add_(0, self.index[level].reshape(-1), share.reshape(-1))
            grad = grad * self.factors[level]
        return of_runs


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
