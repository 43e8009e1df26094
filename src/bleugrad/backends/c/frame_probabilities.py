"""Match probabilities of CTC frames: as for rows, with products of neighbouring frames in the same pass."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.c.row_probabilities import KINDS
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import frame_probabilities


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.frame_probabilities`."""
    outputs = frame_probabilities.shapes(*inputs)
    return (outputs, None) if _run("frame_probabilities", inputs[0], inputs, *outputs) else None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the logits."""
    logits = inputs[0].contiguous()
    grad = logits if inputs[-1] else torch.empty_like(logits)
    return (grad,) if _run("frame_probabilities_backward", logits, inputs, *outputs, *grads[:2], grad) else None


def _run(name: str, logits: Tensor, inputs: Any, *rest: Tensor | None) -> bool:
    _, ids, counted, blank, sharpness, _ = inputs
    if logits.dtype not in KINDS:
        return False
    sizes = (*logits.shape, ids.shape[1], KINDS[logits.dtype], blank, float(sharpness))
    given = (logits, ids, counted, *rest)
    return run(name, sizes, *given, parts=len(logits), work=logits.numel(), dtype=torch.float32)
