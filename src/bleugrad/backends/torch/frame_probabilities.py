"""Match probabilities of CTC frames, and the probability that a frame repeats the symbol of the one before it.

As for :data:`bleugrad.backends.operations.row_probabilities` the softmax is kept and becomes the gradient, sentence by
sentence, so that the product of neighbouring rows needs no second tensor of the logits' size. Devices that are not
waited for take all sentences at once, in a few operations and more such tensors.
"""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.dtypes import compute_dtype
from bleugrad.backends.operation import Outputs


def forward(keep: bool, logits: Tensor, ids: Tensor, counted: Tensor | None, blank: int) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.frame_probabilities`."""
    dtype = compute_dtype(logits)
    if logits.device.type not in SYNCHRONOUS:
        probs = logits.softmax(-1, dtype=dtype)
        matched = probs.gather(2, ids[:, None].expand(-1, logits.shape[1], -1))
        return (matched, _Neighbours(probs, counted, blank).repeated()), probs if keep else None
    kept = logits.softmax(-1, dtype=dtype) if keep and logits.dtype == dtype else None
    matched = logits.new_empty(*logits.shape[:2], ids.shape[1], dtype=dtype)
    repeated = matched.new_zeros(logits.shape[:2])
    for sentence, frames in enumerate(logits):
        probs = frames.softmax(-1, dtype=dtype) if kept is None else kept[sentence]
        torch.index_select(probs, 1, ids[sentence], out=matched[sentence])
        rows = _counted_rows(counted, sentence, probs)
        if len(rows) > 1:
            probs = probs[rows]
            products = probs[1:] * probs[:-1]
            products[:, blank] = 0
            repeated[sentence, rows[1:]] = products.sum(1)
    return (matched, repeated), kept


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the logits, in the place of the softmax if that was kept.

    With w_t the gradient of ``repeated``, that of p[t, v] is w_t p[t-1, v] + w_{t+1} p[t+1, v], blank apart.
    """
    logits, ids, counted, blank = inputs
    matched, repeated = outputs
    pull = torch.zeros_like(matched) if grads[0] is None else grads[0] * matched
    weights = torch.zeros_like(repeated) if grads[1] is None else grads[1]
    if logits.device.type not in SYNCHRONOUS:
        probs = logits.softmax(-1, dtype=matched.dtype) if kept is None else kept
        other = _Neighbours(probs, counted, blank).gradient(weights)
        inner = (probs * other).sum(2) + pull.sum(2)
        found = (probs * (other - inner[..., None])).scatter_add_(2, ids[:, None].expand_as(pull), pull)
        return (found.masked_fill_(probs[..., :1].isnan(), 0).to(logits.dtype),)
    grad = torch.empty_like(logits) if kept is None else kept
    for sentence, frames in enumerate(logits):
        probs = frames.softmax(-1, dtype=matched.dtype) if kept is None else kept[sentence]
        rows = _counted_rows(counted, sentence, probs)
        other, inner = torch.zeros_like(probs), pull[sentence].sum(-1)
        if len(rows) > 1:
            weight, chosen = weights[sentence, rows[1:], None], probs[rows]
            near = torch.nn.functional.pad(chosen[:-1] * weight, (0, 0, 1, 0))
            near[:-1] += chosen[1:] * weight
            near[:, blank] = 0
            other[rows] = near
            share = weights[sentence, rows] * repeated[sentence, rows]
            inner[rows] += share
            inner[rows[:-1]] += share[1:]
        found = probs * (other - inner[:, None])
        found.scatter_add_(1, ids[sentence].expand(len(found), -1), pull[sentence])
        broken = matched[sentence, :, :1].isnan().any(1) if matched.shape[2] else repeated[sentence].isnan()
        grad[sentence] = found.masked_fill(broken[:, None], 0)
    return (grad,)


def _counted_rows(counted: Tensor | None, sentence: int, probs: Tensor) -> Tensor:
    """The frames of a sentence that count."""
    if counted is None:
        return torch.arange(len(probs), device=probs.device)
    return counted[sentence].nonzero().squeeze(1)


class _Neighbours:
    """The frames that count, one after the other: ``symbols`` (B, T, V), 0 for blank and for the other frames."""

    def __init__(self, probs: Tensor, counted: Tensor | None, blank: int) -> None:
        self.order = None
        if counted is None:
            self.symbols = probs.clone()
        else:
            left_out = ~counted
            self.order = left_out.long().argsort(dim=1, stable=True)
            symbols = probs.masked_fill(left_out[..., None], 0)
            self.symbols = symbols.gather(1, self.order[..., None].expand_as(symbols))
        self.symbols[..., blank].zero_()

    def repeated(self) -> Tensor:
        """The probability (B, T) that a frame holds the symbol of the one before it."""
        found = torch.nn.functional.pad((self.symbols[:, 1:] * self.symbols[:, :-1]).sum(2), (1, 0))
        return found if self.order is None else torch.zeros_like(found).scatter(1, self.order, found)

    def gradient(self, weights: Tensor) -> Tensor:
        """The gradient (B, T, V) of the probabilities, from that of the repetitions."""
        weights = (weights if self.order is None else weights.gather(1, self.order))[:, 1:, None]
        near = torch.nn.functional.pad(self.symbols[:, :-1] * weights, (0, 0, 1, 0))
        near[:, :-1].addcmul_(self.symbols[:, 1:], weights)
        return (
            near
            if self.order is None
            else torch.zeros_like(near).scatter(1, self.order[..., None].expand_as(near), near)
        )
