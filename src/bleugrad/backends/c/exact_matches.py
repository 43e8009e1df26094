"""The renewal recursion in C, in chunks of reference columns."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import library_for, make_problem
from bleugrad.backends.c.patterns import CHUNK, Patterns
from bleugrad.backends.operation import Outputs


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.exact_matches`."""
    unit_probs = inputs[0]
    if (library := library_for(unit_probs)) is None:
        return None
    problem, chunks, orders = _problem(inputs, apart=1)
    new = unit_probs.new_zeros(chunks, *unit_probs.shape[:2], orders)
    library.run("matches", problem, unit_probs.numel() * orders, new, parts=unit_probs.shape[1] * chunks)
    return (new[0] if chunks == 1 else new.sum(0),), None


def _problem(inputs: Any, apart: int) -> tuple[Any, int, int]:
    """The patterns for the library, every ``apart``-th chunk of them at once, the chunks, and the orders."""
    unit_probs, alive, opening, clips, overlaps, spans = inputs
    orders = clips.shape[1]
    sizes = (*unit_probs.shape, orders, CHUNK, apart, 0)
    problem = make_problem(Patterns, sizes, unit_probs, clips, overlaps, spans, alive, opening)
    return problem, -(-unit_probs.shape[2] // CHUNK), orders


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, ...] | None:
    """The gradients of ``unit_probs``, ``alive`` and ``opening``, 0 for what is not given."""
    unit_probs = inputs[0]
    if (library := library_for(unit_probs)) is None:
        return None
    (steps, batch, _), (problem, chunks, orders) = unit_probs.shape, _problem(inputs, apart=2)
    grad_units = unit_probs.new_zeros(unit_probs.shape)
    grad_alive, grad_opening = (unit_probs.new_zeros(chunks, steps, batch) for _ in range(2))
    for problem.begin in range(min(2, chunks)):  # adjacent chunks write to the same columns
        parts = batch * len(range(problem.begin, chunks, 2))
        found = (grad_units, grad_alive, grad_opening)
        library.run("matches_backward", problem, unit_probs.numel() * orders // 2, grads[0], *found, parts=parts)
    if chunks == 1:
        return grad_units, grad_alive[0], grad_opening[0]
    return grad_units, grad_alive.sum(0), grad_opening.sum(0)
