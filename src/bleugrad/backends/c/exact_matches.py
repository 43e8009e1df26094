"""The renewal recursion in C, in chunks of reference columns."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.c.ngram_problem import CHUNK, LANES
from bleugrad.backends.dispatch import Outputs


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.exact_matches`."""
    (steps, batch, columns), orders = inputs[0].shape, inputs[3].shape[1]
    chunks, (strides, *given) = -(-columns // CHUNK), _patterns(inputs)
    sizes, work = (steps, batch, columns, orders, CHUNK, 1, 0, *strides), given[0].numel() * orders
    new, unused = given[0].new_zeros(chunks, steps, batch, orders), (None,) * 4
    if orders > LANES or not run("matches", sizes, *given, new, *unused, parts=batch * chunks, work=work):
        return None
    return (new[0] if chunks == 1 else new.sum(0),), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``unit_probs``, ``alive`` and ``opening``, None for inputs that are None."""
    (steps, batch, columns), orders = inputs[0].shape, inputs[3].shape[1]
    chunks, (strides, *given) = -(-columns // CHUNK), _patterns(inputs)
    units, work = given[0], given[0].numel() * orders // 2
    found = [units.new_empty(units.shape)]
    found += [one if one is None else one.new_zeros(chunks, *one.shape) for one in inputs[1:3]]
    for begin in range(min(2, chunks)):  # adjacent chunks write to the same columns
        parts, sizes = batch * len(range(begin, chunks, 2)), (steps, batch, columns, orders, CHUNK, 2, begin, *strides)
        if orders > LANES or not run("matches", sizes, *given, None, grads[0], *found, parts=parts, work=work):
            return None
    grad_units = found[0] if units is inputs[0] else found[0].transpose(0, 1)
    return grad_units, *(one if one is None else one[0] if chunks == 1 else one.sum(0) for one in found[1:])


def _patterns(inputs: Any) -> tuple[Any, ...]:
    """The strides of units (T, B, L), and the tensors of the struct ``Patterns``. Units are read as they lie."""
    units, alive, opening, clips, overlaps, spans = inputs
    (steps, batch, columns), rows = units.shape, units.transpose(0, 1)
    strides, units = ((columns, steps * columns), rows) if rows.is_contiguous() else ((batch * columns, columns), units)
    return strides, units, clips, overlaps, spans, alive, opening
