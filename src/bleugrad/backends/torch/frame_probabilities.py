"""Match probabilities of CTC frames, and the probability that a frame repeats the symbol of the one before it.

As for :data:`bleugrad.backends.operations.row_probabilities` the softmax is kept and becomes the gradient, sentence by
sentence, so that the product of neighbouring rows needs no second tensor of the logits' size.
"""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.dtypes import compute_dtype


def forward(keep: bool, logits: Tensor, ids: Tensor, counted: Tensor | None, blank: int) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.frame_probabilities`."""
    dtype = compute_dtype(logits)
    kept = logits.softmax(-1, dtype=dtype) if keep and logits.dtype == dtype else None
    matched = logits.new_empty(*logits.shape[:2], ids.shape[1], dtype=dtype)
    repeated = matched.new_zeros(logits.shape[:2])
    for sentence, frames in enumerate(logits):
        probs = frames.softmax(-1, dtype=dtype) if kept is None else kept[sentence]
        torch.index_select(probs, 1, ids[sentence], out=matched[sentence])
        order, symbols = _symbols(probs, None if counted is None else counted[sentence], blank)
        products = (symbols[1:] * symbols[:-1]).sum(1)
        repeated[sentence, order[1:]] = products
    return (matched, repeated), kept


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the logits, in the place of the softmax if that was kept.

    With w_t the gradient of ``repeated``, that of p[t, v] is w_t p[t-1, v] + w_{t+1} p[t+1, v], blank apart.
    """
    logits, ids, counted, blank = inputs
    matched, repeated = outputs
    pull = torch.zeros_like(matched) if grads[0] is None else grads[0] * matched
    weights = torch.zeros_like(repeated) if grads[1] is None else grads[1]
    grad = torch.empty_like(logits) if kept is None else kept
    for sentence, frames in enumerate(logits):
        probs = frames.softmax(-1, dtype=matched.dtype) if kept is None else kept[sentence]
        order, symbols = _symbols(probs, None if counted is None else counted[sentence], blank)
        weight = weights[sentence, order[1:], None]
        near = torch.nn.functional.pad(symbols[:-1] * weight, (0, 0, 1, 0))
        near[:-1].addcmul_(symbols[1:], weight)
        of_probs = torch.empty_like(near).index_copy_(0, order, near)
        inner = (probs * of_probs).sum(1) + pull[sentence].sum(1)
        found = probs * (of_probs - inner[:, None])
        found.scatter_add_(1, ids[sentence].expand(len(found), -1), pull[sentence])
        grad[sentence] = found.masked_fill_(probs[:, :1].isnan(), 0)
    return (grad,)


def _symbols(probs: Tensor, counted: Tensor | None, blank: int) -> tuple[Tensor, Tensor]:
    """The frames (T,) of a sentence, those that count first, and their rows (T, V), 0 for blank and after the last."""
    if counted is None:
        order, symbols = torch.arange(len(probs), device=probs.device), probs.clone()
    else:
        order = (~counted).long().argsort(stable=True)
        symbols = probs.masked_fill(~counted[:, None], 0)[order]
    symbols[:, blank] = 0
    return order, symbols
