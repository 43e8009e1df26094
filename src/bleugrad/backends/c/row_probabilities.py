"""Match probabilities in float32: one pass over the logits forward, one over their exponentials backward."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import Problem, fields, library_for, run
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch import row_probabilities as reference
from bleugrad.backends.torch.row_gradient import RowGradient


class _Rows(Problem):
    _fields_ = fields("batch size", "")


def forward(
    keep: bool, logits: Tensor, ids: Tensor, targets: Tensor | None, word_start: Tensor | None
) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.row_probabilities`. Keeps exponentials and the inverse of their sums."""
    if not keep or logits.dtype != torch.float32 or logits.device.type != "cpu":
        return None
    batch, steps, vocabulary = logits.shape
    logits, chosen = logits.contiguous(), None if word_start is None else word_start.float()
    values, inverse = torch.empty_like(logits), logits.new_empty(batch, steps, 1)
    opening = logits.new_empty(0 if chosen is None else (batch, steps))
    sizes, written = (batch * steps, vocabulary), (logits, chosen, values, inverse, opening)
    if not run("exponentials", logits, _Rows, sizes, (), *written, work=logits.numel()):
        return None
    matched = values.gather(2, ids[:, None, :].expand(batch, steps, -1)).mul_(inverse)
    log_probs = matched.new_empty(0)
    if targets is not None:
        log_probs = reference.log_probabilities(logits, values.gather(2, targets).mul_(inverse), targets)
    return (matched, log_probs, opening), (values, inverse)


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the logits, in the place of the exponentials; without those torch operations form it."""
    logits, ids, targets, word_start = inputs
    matched, _, opening = outputs
    library = library_for(logits)
    if kept is None or library is None:
        return reference.backward(None, needs, grads, outputs, inputs)
    values, inverse = kept
    row = RowGradient.of(grads, matched, opening)
    chosen = None if row.opening_scale is None else word_start
    problem, factors = _Rows(inverse.numel(), values.shape[2]), (inverse, row.scale, chosen, row.opening_scale)
    library.run("scale_rows", problem, values.numel(), values, *factors)
    row.add_sparse(values, ids, targets)
    return (values,)
