"""Match probabilities of CTC frames: as for rows, with products of neighbouring frames in the same pass."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import Problem, fields, run
from bleugrad.backends.c.row_probabilities import KINDS
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import frame_probabilities


class _Frames(Problem):
    _fields_ = fields("batch steps size number kind blank", "", "sharpness")


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.frame_probabilities`."""
    logits, ids, counted, *_ = inputs
    if logits.dtype not in KINDS:
        return None
    outputs, given = frame_probabilities.shapes(*inputs), (logits, ids, counted)
    done = run("frame_probabilities", outputs[0], _Frames, _sizes(*inputs), (), *given, *outputs, work=logits.numel())
    return (outputs, None) if done else None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the logits."""
    logits, ids, counted, *_, inplace = inputs
    if logits.dtype not in KINDS:
        return None
    logits = logits.contiguous()
    grad = logits if inplace else torch.empty_like(logits)
    given = (logits, ids, counted, *outputs, *grads[:2], grad)
    name, work = "frame_probabilities_backward", logits.numel()
    return (grad,) if run(name, outputs[0], _Frames, _sizes(*inputs), (), *given, work=work) else None


def _sizes(logits: Tensor, ids: Tensor, counted: Any, blank: int, sharpness: float, _: bool) -> tuple[int | float, ...]:
    return *logits.shape, ids.shape[1], KINDS[logits.dtype], blank, sharpness
