"""The paper's bound in C, for a fixed length."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.c.ngram_problem import sizes
from bleugrad.backends.dispatch import Outputs


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.bound_matches`."""
    matches = inputs[0].new_zeros(inputs[3].shape[:2])
    return ((matches,), None) if _run(inputs, matches, None, None, None) else None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``unit_probs`` and ``boundary``, 0 where that is not given; the survival has none."""
    units = inputs[0]
    found = (units.new_zeros(units.shape), units.new_zeros(units.shape[:2]))
    return (found[0], None, found[1]) if _run(inputs, None, grads[0], *found) else None


def _run(inputs: Any, *rest: Tensor | None) -> bool:
    """False, and nothing is done, where C does not support the inputs, as for a random length."""
    units, survival, boundary, clips, spans = inputs
    (_, batch, _), orders, given = units.shape, clips.shape[1], (units, clips, None, spans, None, None, boundary, *rest)
    return survival is None and run("bound", sizes(units, orders), *given, parts=batch, work=units.numel() * orders)
