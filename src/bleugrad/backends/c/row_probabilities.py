"""Match probabilities in one read of the logits, and their gradient in one more read and one write."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.dispatch import Outputs

KINDS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""The types of logits that the kernels read, by their number in ``rows.h``. All are computed in float32."""


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.row_probabilities`."""
    logits, ids, targets, word_start, *_ = inputs
    rows = logits.shape[:2]
    matched = logits.new_empty(*rows, ids.shape[1], dtype=torch.float32)
    log_probs, means = (0, 0) if targets is None else (targets.shape, rows)
    others = (log_probs, 0 if word_start is None else rows, means, (*rows, 3))
    outputs = (matched, *map(matched.new_empty, others))
    return (outputs, None) if _run("row_probabilities", logits, inputs, *outputs) else None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the logits."""
    given = (None if grad is None or not grad.numel() else grad for grad in grads[:4])
    logits = inputs[0].contiguous()
    grad = logits if inputs[-1] else torch.empty_like(logits)
    return (grad,) if _run("row_probabilities_backward", logits, inputs, *outputs, *given, grad) else None


def _run(name: str, logits: Tensor, inputs: Any, *rest: Tensor | None) -> bool:
    _, ids, targets, word_start, sharpness, _ = inputs
    if logits.dtype not in KINDS:
        return False
    (batch, steps, size), chosen = logits.shape, 0 if targets is None else targets.shape[2]
    sizes = (batch * steps, steps, size, ids.shape[1], chosen, KINDS[logits.dtype], float(sharpness))
    given = (logits, ids, targets, word_start, *rest)
    return run(name, sizes, *given, parts=batch * steps, work=logits.numel(), dtype=torch.float32)
