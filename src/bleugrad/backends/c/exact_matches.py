"""The renewal recursion in C, in chunks of reference columns."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import library_for, make_problem, run
from bleugrad.backends.c.ngram_problem import CHUNK, NgramProblem
from bleugrad.backends.dispatch import Outputs


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.exact_matches`."""
    (steps, batch, columns), orders = inputs[0].shape, inputs[3].shape[1]
    chunks, work, (given, *tensors) = -(-columns // CHUNK), inputs[0].numel() * orders, _fields(inputs, apart=1)
    new = inputs[0].new_zeros(chunks, steps, batch, orders)
    if not run("matches", new, NgramProblem, given, tensors, new, work=work, parts=batch * chunks):
        return None
    return (new[0] if chunks == 1 else new.sum(0),), None


def _fields(inputs: Any, apart: int) -> tuple[Any, ...]:
    """The fields of a problem of which a call takes every ``apart``-th chunk. The units are read as they lie."""
    units, alive, opening, clips, overlaps, spans = inputs
    (steps, batch, columns), rows = units.shape, units.transpose(0, 1)
    strides, units = ((columns, steps * columns), rows) if rows.is_contiguous() else ((batch * columns, columns), units)
    given = (steps, batch, columns, clips.shape[1], CHUNK, apart, 0, *strides)
    return given, units, clips, overlaps, spans, alive, opening


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``unit_probs``, ``alive`` and ``opening``, None for inputs that are None."""
    if (library := library_for(inputs[0])) is None:
        return None
    problem, grad = make_problem(NgramProblem, *_fields(inputs, apart=2)), grads[0].contiguous()
    units, chunks = problem.inputs[0], -(-problem.columns // CHUNK)
    found = [units.new_empty(units.shape)]
    found += [one if one is None else one.new_zeros(chunks, *one.shape) for one in inputs[1:3]]
    for problem.begin in range(min(2, chunks)):  # adjacent chunks write to the same columns
        parts, work = problem.batch * len(range(problem.begin, chunks, 2)), units.numel() * problem.orders // 2
        library.run("matches_backward", problem, work, grad, *found, parts=parts)
    grad_units = found[0].transpose(0, 1) if inputs[0].transpose(0, 1).is_contiguous() else found[0]
    return grad_units, *(one if one is None else one[0] if chunks == 1 else one.sum(0) for one in found[1:])
