"""The renewal recursion in C, in chunks of reference columns."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import library_for, make_problem
from bleugrad.backends.c.patterns import CHUNK, Patterns
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
    steps, batch, columns = unit_probs.shape
    chunks, orders = -(-columns // CHUNK), clips.shape[1]
    sizes = (steps, batch, columns, orders, CHUNK, 1, 0)
    problem = make_problem(Patterns, sizes, unit_probs, clips, overlaps, spans, alive, opening)
    new = unit_probs.new_zeros(chunks, steps, batch, orders)
    library.run("matches", problem, unit_probs.numel() * orders, new, parts=batch * chunks)
    return (new[0] if chunks == 1 else new.sum(0),), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, ...] | None:
    """The gradients of ``unit_probs``, ``alive`` and ``opening``, 0 for what is not given."""
    unit_probs, alive, opening, clips, overlaps, spans = inputs
    if (library := library_for(unit_probs)) is None:
        return None
    steps, batch, columns = unit_probs.shape
    chunks, orders = -(-columns // CHUNK), clips.shape[1]
    sizes = (steps, batch, columns, orders, CHUNK, 2, 0)
    problem = make_problem(Patterns, sizes, unit_probs, clips, overlaps, spans, alive, opening)
    grad_units = unit_probs.new_zeros(unit_probs.shape)
    grad_alive, grad_opening = (unit_probs.new_zeros(chunks, steps, batch) for _ in range(2))
    for problem.begin in range(min(2, chunks)):  # adjacent chunks write to the same columns
        parts = batch * len(range(problem.begin, chunks, 2))
        found = (grad_units, grad_alive, grad_opening)
        library.run("matches_backward", problem, unit_probs.numel() * orders // 2, grads[0], *found, parts=parts)
    if chunks == 1:
        return grad_units, grad_alive[0], grad_opening[0]
    return grad_units, grad_alive.sum(0), grad_opening.sum(0)
