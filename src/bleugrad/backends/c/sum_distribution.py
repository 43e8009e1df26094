"""Distributions of sums: small ones are convolved directly, and transforms take over where they are faster."""

import math
from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import Problem, fields, library_for, make_problem
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.sum_distribution import DIRECT_SIZE, convolve_pairs, convolve_pairs_backward


class _Sums(Problem):
    _fields_ = fields("problems numbers size levels", "mass sums")


def forward(keep: bool, mass: Tensor) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.sum_distribution`."""
    library = library_for(mass) if mass.shape[0] == 1 and mass.numel() else None
    levels = _direct_levels(*mass.shape[2:])
    if library is None or not levels:
        return None
    mass, shapes = mass.contiguous(), _level_shapes(mass.shape, levels)
    sums = mass.new_empty(sum(math.prod(shape) for shape in shapes))
    problem = make_problem(_Sums, (*mass.shape[1:], levels), mass, sums)
    library.call("sum_levels", problem)
    top, halves = convolve_pairs(sums[-math.prod(shapes[-1]) :].view(shapes[-1]))
    return (top.clone(),), (sums, halves, shapes[-1], levels)


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the masses."""
    library = library_for(inputs[0])
    if kept is None and (result := forward(True, *inputs)) is not None:
        kept = result[1]
    if kept is None or library is None:
        return None
    sums, halves, shape, levels = kept
    mass = inputs[0].contiguous()
    problem = make_problem(_Sums, (*mass.shape[1:], levels), mass, sums)
    grad = convolve_pairs_backward(grads[0], halves).reshape(shape).contiguous()
    grad_mass, room = mass.new_empty(mass.shape), sums.new_empty(sums.numel() - grad.numel())
    library.call("sum_levels_backward", problem, grad, grad_mass, room)
    return (grad_mass,)


def _direct_levels(numbers: int, size: int) -> int:
    """How many levels are convolved directly."""
    levels = 0
    while numbers > 1 and size <= DIRECT_SIZE:
        numbers, size, levels = (numbers + 1) // 2, 2 * size - 1, levels + 1
    return levels


def _level_shapes(shape: tuple[int, ...], levels: int) -> list[tuple[int, int, int, int]]:
    """The shapes of the levels above masses (1, P, B, S)."""
    parts, problems, numbers, size = shape
    shapes = []
    for _ in range(levels):
        numbers, size = (numbers + 1) // 2, 2 * size - 1
        shapes.append((parts, problems, numbers, size))
    return shapes
