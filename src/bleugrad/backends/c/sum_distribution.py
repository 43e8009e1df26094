"""Distributions of sums of a few numbers, convolved directly; transforms are faster for many."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import sum_distribution

MOST = 2**21
"""The most products of a problem that are computed directly."""


def forward(keep: bool, mass: Tensor) -> tuple[Outputs, Tensor] | None:
    """See :data:`bleugrad.backends.operations.sum_distribution`. Keeps the sums of the first numbers."""
    sums = mass.new_empty(*mass.shape[1:3], sum_distribution.shapes(mass)[0].shape[2])
    return ((sums[None, :, -1].clone(),), sums) if _run("sum_rows", mass, sums, None, None) else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the masses."""
    (mass,) = inputs
    if kept is None and (result := forward(True, mass)) is not None:
        kept = result[1]
    found = mass.new_empty(mass.shape)
    return (found,) if kept is not None and _run("sum_rows_backward", mass, kept, grads[0], found) else None


def _run(name: str, mass: Tensor, sums: Tensor, *rest: Tensor | None) -> bool:
    parts, problems, numbers, size = mass.shape
    products = numbers * size * sums.shape[2]
    direct = parts == 1 and 0 < products <= MOST
    return direct and run(name, (numbers, size, sums.shape[2]), mass, sums, *rest, parts=problems, work=products)
