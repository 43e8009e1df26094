"""The renewal recursion in C, in chunks of reference columns."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import library_for, make_problem, run
from bleugrad.backends.c.ngram_problem import CHUNK, NgramProblem
from bleugrad.backends.dispatch import Outputs


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.exact_matches`."""
    unit_probs, fields, (steps, batch, chunks, orders) = _parts(inputs, apart=1)
    new, (sizes, *tensors) = unit_probs.new_zeros(chunks, steps, batch, orders), fields
    work, parts = unit_probs.numel() * orders, batch * chunks
    if not run("matches", unit_probs, NgramProblem, sizes, tensors, new, work=work, parts=parts):
        return None
    return (new[0] if chunks == 1 else new.sum(0),), None


def _parts(inputs: Any, apart: int) -> tuple[Tensor, tuple[Any, ...], tuple[int, int, int, int]]:
    """The probabilities, the fields of the problem, and its steps, sentences, chunks and orders.

    A call of the library takes every ``apart``-th chunk.
    """
    unit_probs, alive, opening, clips, overlaps, spans = inputs
    (steps, batch, columns), orders = unit_probs.shape, clips.shape[1]
    sizes = (steps, batch, columns, orders, CHUNK, apart, 0)
    fields = (sizes, unit_probs, clips, overlaps, spans, alive, opening)
    return unit_probs, fields, (steps, batch, -(-columns // CHUNK), orders)


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``unit_probs``, ``alive`` and ``opening``, None for inputs that are None."""
    unit_probs, fields, (steps, batch, chunks, orders) = _parts(inputs, apart=2)
    if (library := library_for(unit_probs)) is None:
        return None
    problem = make_problem(NgramProblem, *fields)
    grad_units, grad = unit_probs.new_empty(unit_probs.shape), grads[0].contiguous()
    others = [None if one is None else unit_probs.new_zeros(chunks, steps, batch) for one in inputs[1:3]]
    for problem.begin in range(min(2, chunks)):  # adjacent chunks write to the same columns
        parts = batch * len(range(problem.begin, chunks, 2))
        work = unit_probs.numel() * orders // 2
        library.run("matches_backward", problem, work, grad, grad_units, *others, parts=parts)
    return grad_units, *(one if one is None else one[0] if chunks == 1 else one.sum(0) for one in others)
