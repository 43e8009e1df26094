"""Match probabilities in one pass over the logits.

With d = logits - m for the largest logit m of a row, p = exp(d - log sum exp(d)) and
q = exp(s d - log sum exp(s d)). Gradients of the outputs become one gradient of the logits::

    s q[v] (sum of opening_v - pulled) - own p[v] + mean / V,  and at single tokens  s q[id] grad,  grad

with ``pulled`` the sum of q[id] grad and opening * grad, ``own`` the sum of the gradients of log-probabilities.
"""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import row_probabilities
from bleugrad.backends.torch.blocks import expanded, part_of, row_blocks


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.row_probabilities`."""
    logits, ids, targets, word_start, sharpness, _ = inputs
    outputs = row_probabilities.shapes(*inputs)
    matched, log_probs, opening, means, normalisers = outputs
    for block in row_blocks(logits):
        values = logits[block].to(matched.dtype)
        peak = values.amax(-1, keepdim=True)
        values = values - peak
        plain, sharp = values.logsumexp(-1, keepdim=True), (sharpness * values).logsumexp(-1, keepdim=True)
        normalisers[block] = torch.cat([peak, plain, sharp], -1)
        tokens = expanded(ids[block[0]], values.shape[1])
        matched[block] = (sharpness * values.gather(2, tokens) - sharp).exp()
        if targets is not None:
            log_probs[block] = values.gather(2, targets[block]) - plain
            means[block] = values.mean(-1) - plain.squeeze(-1)
        if word_start is not None:
            opening[block] = ((sharpness * values - sharp).exp() * word_start).sum(-1)
    return outputs, None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the logits."""
    logits, ids, targets, word_start, sharpness, inplace = inputs
    grad = logits if inplace else torch.empty_like(logits)
    for block in row_blocks(logits):
        matched, _, opening, _, normalisers = part_of(outputs, block)
        of_matched, of_log_probs, of_opening, of_means = part_of(grads[:4], block)
        peak, plain, sharp = normalisers.split(1, -1)
        values = logits[block].to(matched.dtype) - peak
        pulled, own = torch.zeros_like(peak), torch.zeros_like(peak)
        found, tokens = torch.zeros_like(values), expanded(ids[block[0]], values.shape[1])
        if _given(of_matched):
            pull = of_matched * matched
            pulled += pull.sum(-1, keepdim=True)
            found.scatter_add_(2, tokens, sharpness * pull)
        if _given(of_log_probs):
            own += of_log_probs.sum(-1, keepdim=True)
            found.scatter_add_(2, targets[block], of_log_probs)
        if _given(of_means):
            own += of_means[..., None]
            found += of_means[..., None] / values.shape[2]
        factor = -pulled
        if _given(of_opening):
            factor = factor + of_opening[..., None] * (word_start.to(values.dtype) - opening[..., None])
        found += sharpness * factor * (sharpness * values - sharp).exp() - own * (values - plain).exp()
        broken = ~(peak + plain + sharp).isfinite()
        grad[block] = found.masked_fill_(broken, 0)
    return (grad,)


def _given(grad: Tensor | None) -> bool:
    return grad is not None and grad.numel() > 0
