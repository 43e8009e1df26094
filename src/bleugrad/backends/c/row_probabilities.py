"""Match probabilities in one read of the logits, and their gradient in one more read and one write."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import Problem, fields, run
from bleugrad.backends.dispatch import Outputs

KINDS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""The types of logits that the kernels read, by their number in ``rows.h``. All are computed in float32."""


class _Rows(Problem):
    _fields_ = fields("batch steps size number chosen kind", "", "sharpness")


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.row_probabilities`."""
    logits, ids, targets, word_start, *_ = inputs
    if logits.dtype not in KINDS:
        return None
    rows = logits.shape[:2]
    matched = logits.new_empty(*rows, ids.shape[1], dtype=torch.float32)
    log_probs, means = (0, 0) if targets is None else (targets.shape, rows)
    others = (log_probs, 0 if word_start is None else rows, means, (*rows, 3))
    outputs = (matched, *map(matched.new_empty, others))
    done = run("row_probabilities", matched, _Rows, _sizes(*inputs), (), *inputs[:4], *outputs, work=logits.numel())
    return (outputs, None) if done else None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the logits."""
    logits, *asked, _, inplace = inputs
    if logits.dtype not in KINDS:
        return None
    matched, _, opening, _, normalisers = outputs
    of_matched, of_log_probs, of_opening, of_means = (None if g is None or not g.numel() else g for g in grads[:4])
    logits = logits.contiguous()
    grad = logits if inplace else torch.empty_like(logits)
    given = (logits, *asked, matched, opening, normalisers, of_matched, of_opening, of_log_probs, of_means, grad)
    done = run("row_probabilities_backward", matched, _Rows, _sizes(*inputs), (), *given, work=logits.numel())
    return (grad,) if done else None


def _sizes(logits: Tensor, ids: Tensor, targets: Tensor | None, *more: Any) -> tuple[int | float, ...]:
    batch, steps, size = logits.shape
    chosen = 0 if targets is None else targets.shape[2]
    return batch * steps, steps, size, ids.shape[1], chosen, KINDS[logits.dtype], more[1]
