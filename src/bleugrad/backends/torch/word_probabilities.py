"""The products of the probabilities of each word's tokens."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.operation import Outputs
from bleugrad.backends.torch.scans import RADIX, product_of_others
from bleugrad.backends.torch.unit_windows import UnitWindows


def forward(keep: bool, *inputs: Tensor) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.word_probabilities`. O(T B W) time per token of a word."""
    if inputs[0].device.type not in SYNCHRONOUS:
        blocks = _BlockProducts(*inputs)
        return (blocks.products(),), blocks if keep else None
    products = _Products(inputs[0].shape, *inputs[1:])
    return (products.forward(inputs[0]),), products if keep else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the match probabilities."""
    if inputs[0].device.type not in SYNCHRONOUS:
        return ((_BlockProducts(*inputs) if kept is None else kept).backward(grads[0]),)
    products = forward(True, *inputs)[1] if kept is None else kept
    return (products.backward(grads[0]),)


class _BlockProducts:
    """The products, (T, B, W): a word of s tokens is made of blocks of sqrt(T) or 16 tokens, the last one shorter.

    The number of operations does not depend on T. O(T B (L + W) max(sqrt(T), T / 16)) memory.
    """

    def __init__(self, match_probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> None:
        steps, batch, columns = match_probs.shape
        device, most = spans.device, min(steps, columns)
        size, row = min(RADIX, 2 ** ((most.bit_length() + 1) // 2)), batch * columns
        position = torch.arange(1, steps + 1, device=device)[:, None, None]
        self.forbidden = continued & (position != spans)
        self.blocks, number = UnitWindows(match_probs, None, size), most // size + 1
        left = (spans[..., None] - torch.arange(0, size * number, size, device=device)).clamp_(max=size)
        after = starts + spans + torch.arange(0, row, columns, device=device)[:, None]
        back = size**2 * (row + 1)
        cell = torch.arange(1 - size, steps * row * size + 1 - size, row * size, device=device).view(-1, 1, 1, 1)
        cell = cell + (left.add(after[..., None], alpha=size) - torch.arange(0, back * number, back, device=device))
        cell = cell.clamp_(min=1) * (left > 0)  # cells 0 and 1 hold 1 and 0
        self.cell, ends = cell.view(-1), torch.arange(1, -1, -1, device=device, dtype=match_probs.dtype)
        self.factors = torch.cat([ends, self.blocks.probs.view(-1)]).index_select(0, self.cell).view(cell.shape)

    def products(self) -> Tensor:
        """The products, (T, B, W)."""
        return self.factors.prod(3).masked_fill_(self.forbidden, 0)

    def backward(self, grad: Tensor) -> Tensor:
        """The gradient of ``match_probs``."""
        shares = product_of_others(self.factors, 3) * grad.masked_fill(self.forbidden, 0)[..., None]
        of_blocks = grad.new_zeros(self.blocks.probs.numel() + 2).index_add_(0, self.cell, shares.view(-1))
        return self.blocks.backward(of_blocks[2:].view_as(self.blocks.probs))


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
