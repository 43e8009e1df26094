"""The paper's bound in C, for a fixed length."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import library_for, make_problem
from bleugrad.backends.c.patterns import CHUNK, Patterns
from bleugrad.backends.operation import Outputs


def forward(
    keep: bool,
    unit_probs: Tensor,
    survival: Tensor | None,
    boundary: Tensor | None,
    clips: Tensor,
    spans: Tensor | None,
) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.bound_matches`."""
    library = library_for(unit_probs) if survival is None else None
    if library is None:
        return None
    matches = unit_probs.new_zeros(clips.shape[:2])
    problem = make_problem(
        Patterns, (*unit_probs.shape, clips.shape[1], CHUNK, 1, 0), unit_probs, clips, None, spans, None, None
    )
    library.run("bound", problem, unit_probs.numel() * clips.shape[1], boundary, matches)
    return (matches,), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``unit_probs`` and ``boundary``, 0 where that is not given; the survival has none."""
    unit_probs, survival, boundary, clips, spans = inputs
    library = library_for(unit_probs) if survival is None else None
    if library is None:
        return None
    found = (unit_probs.new_zeros(unit_probs.shape), unit_probs.new_zeros(unit_probs.shape[:2]))
    problem = make_problem(
        Patterns, (*unit_probs.shape, clips.shape[1], CHUNK, 1, 0), unit_probs, clips, None, spans, None, None
    )
    library.run("bound_backward", problem, unit_probs.numel() * clips.shape[1], boundary, grads[0], *found)
    return found[0], None, found[1]
