"""Match probabilities of CTC frames, and the probability that a frame repeats the symbol of the one before it.

Sentence by sentence, so that the product of neighbouring rows needs no second tensor of the logits' size.
"""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import frame_probabilities


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.frame_probabilities`."""
    logits, ids, counted, blank, sharpness, _ = inputs
    outputs = frame_probabilities.shapes(*inputs)
    matched, repeated, normalisers = outputs
    for sentence, frames in enumerate(logits):
        values = frames.to(matched.dtype)
        peak = values.amax(-1, keepdim=True)
        values = sharpness * (values - peak)
        normaliser = values.logsumexp(-1, keepdim=True)
        normalisers[sentence] = torch.cat([peak, normaliser], -1)
        probs = (values - normaliser).exp()
        torch.index_select(probs, 1, ids[sentence], out=matched[sentence])
        order, symbols = _symbols(probs, None if counted is None else counted[sentence], blank)
        repeated[sentence] = 0
        repeated[sentence, order[1:]] = (symbols[1:] * symbols[:-1]).sum(1)
    return outputs, None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the logits.

    With w_t the gradient of ``repeated``, that of p[t, v] is w_t p[t-1, v] + w_{t+1} p[t+1, v], blank apart.
    """
    logits, ids, counted, blank, sharpness, inplace = inputs
    matched, repeated, normalisers = outputs
    pull = torch.zeros_like(matched) if grads[0] is None else grads[0] * matched
    weights = torch.zeros_like(repeated) if grads[1] is None else grads[1]
    grad = logits if inplace else torch.empty_like(logits)
    for sentence, frames in enumerate(logits):
        peak, normaliser = normalisers[sentence].split(1, -1)
        probs = (sharpness * (frames.to(matched.dtype) - peak) - normaliser).exp()
        order, symbols = _symbols(probs, None if counted is None else counted[sentence], blank)
        weight = weights[sentence, order[1:], None]
        near = torch.nn.functional.pad(symbols[:-1] * weight, (0, 0, 1, 0))
        near[:-1].addcmul_(symbols[1:], weight)
        of_probs = torch.empty_like(near).index_copy_(0, order, near)
        inner = (probs * of_probs).sum(1) + pull[sentence].sum(1)
        found = probs * (of_probs - inner[:, None])
        found.scatter_add_(1, ids[sentence].expand(len(found), -1), pull[sentence])
        grad[sentence] = found.mul_(sharpness).masked_fill_(~(peak + normaliser).isfinite(), 0)
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
