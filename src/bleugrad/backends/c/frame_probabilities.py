"""Match probabilities of CTC frames in float32: as for rows, with products of neighbouring frames in the same pass."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import Problem, fields, library_for
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch import frame_probabilities as reference
from bleugrad.backends.torch.row_gradient import RowGradient


class _Frames(Problem):
    _fields_ = fields("batch steps size blank", "")


def forward(keep: bool, logits: Tensor, ids: Tensor, counted: Tensor | None, blank: int) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.frame_probabilities`. Keeps exponentials and inverse sums."""
    library = library_for(logits) if keep and logits.dtype == torch.float32 else None
    if library is None:
        return None
    logits = logits.contiguous()
    values, inverse = torch.empty_like(logits), logits.new_empty(*logits.shape[:2], 1)
    repeated = logits.new_empty(logits.shape[:2])
    problem = _Frames(*logits.shape, blank)
    library.run("frame_exponentials", problem, logits.numel(), logits, counted, values, inverse, repeated)
    matched = values.gather(2, ids[:, None, :].expand(-1, logits.shape[1], -1)).mul_(inverse)
    return (matched, repeated), (values, inverse)


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the logits, in the place of the exponentials; without those torch operations form it."""
    logits, ids, counted, blank = inputs
    matched, repeated = outputs
    library = library_for(logits)
    if kept is None or library is None:
        return reference.backward(None, needs, grads, outputs, inputs)
    values, inverse = kept
    row = RowGradient.of((grads[0], None, None), matched, matched.new_empty(0))
    weights = torch.zeros_like(repeated) if grads[1] is None else grads[1]
    problem, factors = _Frames(*values.shape, blank), (inverse, row.scale, weights, repeated)
    library.run("frame_gradient", problem, values.numel(), values, counted, *factors)
    row.add_sparse(values, ids, None)
    return (values,)
