"""The positions that count, time first, and how a sequence and its words end, in one pass."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import counted_rows


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.counted_rows`."""
    outputs = counted_rows.shapes(*inputs)
    written = (one if one.dim() > 1 else None for one in outputs)
    return (outputs, None) if _run("counted_rows", inputs, *written) else None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``match_probs`` and ``opening``."""
    found = [None if one is None else one.new_empty(one.shape) for one in inputs[:2]]
    return tuple(found) if _run("counted_rows_backward", inputs, *grads, *found) else None


def _run(name: str, inputs: Any, *rest: Tensor | None) -> bool:
    batch, *_ = shape = inputs[0].shape
    return run(name, (*shape, *inputs[5:]), *inputs[:5], *rest, parts=batch, work=inputs[0].numel())
