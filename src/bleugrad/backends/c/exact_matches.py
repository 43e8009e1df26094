"""The renewal recursion in C: one block of n-grams of one sentence at a time."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import library_for, make_problem
from bleugrad.backends.c.patterns import Patterns
from bleugrad.backends.operation import Outputs


def forward(
    keep: bool,
    unit_probs: Tensor,
    alive: Tensor | None,
    opening: Tensor | None,
    clips: Tensor,
    overlaps: Tensor,
    spans: Tensor | None,
) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.exact_matches`."""
    if (library := library_for(unit_probs)) is None:
        return None
    new = unit_probs.new_zeros(*unit_probs.shape[:2], clips.shape[1])
    sizes, work = (*unit_probs.shape, clips.shape[1]), unit_probs.numel() * clips.shape[1]
    problem = make_problem(Patterns, sizes, unit_probs, clips, overlaps, spans, alive, opening)
    library.run("matches", problem, work, new)
    return (new,), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, ...] | None:
    """The gradients of ``unit_probs``, ``alive`` and ``opening``, 0 for what is not given."""
    unit_probs, alive, opening, clips, overlaps, spans = inputs
    if (library := library_for(unit_probs)) is None:
        return None
    shapes = (unit_probs.shape, unit_probs.shape[:2], unit_probs.shape[:2])
    found = tuple(unit_probs.new_zeros(shape) for shape in shapes)
    sizes, work = (*unit_probs.shape, clips.shape[1]), unit_probs.numel() * clips.shape[1]
    problem = make_problem(Patterns, sizes, unit_probs, clips, overlaps, spans, alive, opening)
    library.run("matches_backward", problem, work, grads[0], *found)
    return found
