"""Match probabilities of CTC frames: as for rows, with products of neighbouring frames in the same pass."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import Problem, fields, library_for
from bleugrad.backends.c.row_probabilities import KINDS
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import frame_probabilities


class _Frames(Problem):
    _fields_ = fields("batch steps size number kind blank", "", "sharpness")


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.frame_probabilities`."""
    logits, ids, counted, blank, sharpness, _ = inputs
    library = library_for(logits, torch.float32) if logits.dtype in KINDS else None
    if library is None:
        return None
    outputs = frame_probabilities.shapes(*inputs)
    problem = _problem(logits, ids, blank, sharpness)
    library.run("frame_probabilities", problem, logits.numel(), logits, ids, counted, *outputs)
    return outputs, None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the logits."""
    logits, ids, counted, blank, sharpness, inplace = inputs
    library = library_for(logits, torch.float32) if logits.dtype in KINDS else None
    if library is None:
        return None
    logits = logits.contiguous()
    grad = logits if inplace else torch.empty_like(logits)
    given = (logits, ids, counted, *outputs, *grads[:2], grad)
    library.run("frame_probabilities_backward", _problem(logits, ids, blank, sharpness), logits.numel(), *given)
    return (grad,)


def _problem(logits: Tensor, ids: Tensor, blank: int, sharpness: float) -> _Frames:
    return _Frames(*logits.shape, ids.shape[1], KINDS[logits.dtype], blank, sharpness)
