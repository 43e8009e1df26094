"""Distributions of sums: small ones are convolved directly, and transforms take over where they are faster."""

import math
from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.sum_distribution import DIRECT_SIZE, convolve_pairs, convolve_pairs_backward


def forward(keep: bool, mass: Tensor) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.sum_distribution`."""
    levels = _direct_levels(*mass.shape[2:]) if mass.shape[0] == 1 and mass.numel() else 0
    if not levels:
        return None
    shapes = _level_shapes(mass.shape, levels)
    sums = mass.new_empty(sum(math.prod(shape) for shape in shapes))
    if not run("sum_levels", (*mass.shape[1:], levels), mass, sums, parts=1, work=0):
        return None
    top, halves = convolve_pairs(sums[-math.prod(shapes[-1]) :].view(shapes[-1]))
    return (top.clone(),), (sums, halves, shapes[-1], levels)


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the masses."""
    (mass,) = inputs
    if kept is None and (result := forward(True, mass)) is not None:
        kept = result[1]
    if kept is None:
        return None
    sums, halves, shape, levels = kept
    grad = convolve_pairs_backward(grads[0], halves).reshape(shape)
    grad_mass, room = mass.new_empty(mass.shape), sums.new_empty(sums.numel() - grad.numel())
    given = (mass, sums, grad, grad_mass, room)
    return (grad_mass,) if run("sum_levels_backward", (*mass.shape[1:], levels), *given, parts=1, work=0) else None


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
