"""The paper's bound in C, for a fixed length."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import library_for, make_problem
from bleugrad.backends.c.ngram_problem import NgramProblem, sizes
from bleugrad.backends.dispatch import Outputs


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.bound_matches`."""
    unit_probs, _, boundary, clips, _ = inputs
    if (library := _library(inputs)) is None:
        return None
    matches = unit_probs.new_zeros(clips.shape[:2])
    library.run("bound", _problem(inputs), unit_probs.numel() * clips.shape[1], boundary, matches)
    return (matches,), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``unit_probs`` and ``boundary``, 0 where that is not given; the survival has none."""
    unit_probs, _, boundary, clips, _ = inputs
    if (library := _library(inputs)) is None:
        return None
    found = (unit_probs.new_zeros(unit_probs.shape), unit_probs.new_zeros(unit_probs.shape[:2]))
    library.run("bound_backward", _problem(inputs), found[0].numel() * clips.shape[1], boundary, grads[0], *found)
    return found[0], None, found[1]


def _library(inputs: Any) -> Any:
    """The library, or None where it does not support the inputs, as for a random length."""
    unit_probs, survival = inputs[:2]
    return library_for(unit_probs) if survival is None else None


def _problem(inputs: Any) -> Any:
    unit_probs, _, _, clips, spans = inputs
    return make_problem(NgramProblem, sizes(unit_probs, clips.shape[1]), unit_probs, clips, None, spans, None, None)
