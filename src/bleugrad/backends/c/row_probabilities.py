"""Match probabilities in one read of the logits, and their gradient in one more read and one write."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import Problem, fields, library_for
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import row_probabilities

KINDS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""The types of logits that the kernels read, by their number in ``rows.h``. All are computed in float32."""


class _Rows(Problem):
    _fields_ = fields("batch steps size number chosen kind", "", "sharpness")


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.row_probabilities`."""
    logits, ids, targets, word_start, sharpness, _ = inputs
    library = library_for(logits, torch.float32) if logits.dtype in KINDS else None
    if library is None:
        return None
    outputs = row_probabilities.shapes(*inputs)
    given = (logits, ids, targets, word_start)
    library.run("row_probabilities", _problem(logits, ids, targets, sharpness), logits.numel(), *given, *outputs)
    return outputs, None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the logits."""
    logits, ids, targets, word_start, sharpness, inplace = inputs
    library = library_for(logits, torch.float32) if logits.dtype in KINDS else None
    if library is None:
        return None
    matched, _, opening, _, normalisers = outputs
    of_matched, of_log_probs, of_opening, of_means = (None if g is None or not g.numel() else g for g in grads[:4])
    logits = logits.contiguous()
    grad = logits if inplace else torch.empty_like(logits)
    given = (logits, ids, targets, word_start, matched, opening, normalisers)
    found = (of_matched, of_opening, of_log_probs, of_means, grad)
    problem = _problem(logits, ids, targets, sharpness)
    library.run("row_probabilities_backward", problem, logits.numel(), *given, *found)
    return (grad,)


def _problem(logits: Tensor, ids: Tensor, targets: Tensor | None, sharpness: float) -> _Rows:
    batch, steps, size = logits.shape
    chosen = 0 if targets is None else targets.shape[2]
    return _Rows(batch * steps, steps, size, ids.shape[1], chosen, KINDS[logits.dtype], sharpness)
