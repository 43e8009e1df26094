"""The positions that count, time first, and how a sequence and its words end: a program per position and sentence."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import counted_rows
from bleugrad.backends.triton.launching import lanes, launch, supported


@triton.jit
def place(order, row, t, counts, steps, HAS_ORDER: tl.constexpr):
    """Where the position that counts as number t of a sentence stands in (B, T)."""
    at = t
    if HAS_ORDER:
        at = tl.load(order + row * steps + t, counts, 0)
    return row * steps + at


@triton.jit
def counted_rows_kernel(
    probs, opening, order, limits, ends, units, opened, boundary, alive, stop, batch, steps, width, columns, extra,
    HAS_OPENING: tl.constexpr, HAS_ORDER: tl.constexpr, HAS_END: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """All outputs of a position; the program of position T' only writes the last stop and boundary."""
    t, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    total = steps + extra
    limit, latest = tl.load(limits + row), tl.load(ends + row)
    counts = t < limit
    source = place(order, row, t, counts, steps, HAS_ORDER)
    cell = t.to(tl.int64) * batch + row
    bound = 0.0
    if HAS_END:
        end = tl.load(probs + source * width + columns, counts, 0)
        tl.store(stop + row * (total + 1) + t, end + tl.where(t == latest, 1.0, 0.0))
        tl.store(alive + cell, 1 - end, t < total)
        bound += end
    if HAS_OPENING:
        opens = tl.load(opening + source, counts, tl.where(extra > 0, 1.0, 0.0))
        tl.store(opened + cell, opens, t < total)
        tl.store(boundary + cell - batch, tl.where(t < latest, bound + opens, 1.0), t > 0)
    for first in range(0, columns, BLOCK):
        j = first + tl.arange(0, BLOCK)
        prob = tl.load(probs + source * width + j, (j < columns) & (t + 0 * j < limit), 0)  # a vector, not a number
        tl.store(units + cell * columns + j, prob, (j < columns) & (t + 0 * j < total))


@triton.jit
def counted_rows_gradient_kernel(
    order, limits, ends, units, opened, boundary, alive, stop, out, out_opening, batch, steps, width, columns, extra,
    HAS_OPENING: tl.constexpr, HAS_ORDER: tl.constexpr, HAS_END: tl.constexpr,
    HAS_UNITS: tl.constexpr, HAS_OPENED: tl.constexpr, HAS_BOUNDARY: tl.constexpr, HAS_ALIVE: tl.constexpr,
    HAS_STOP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of a position that counts; those of others stay 0."""
    t, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    limit = tl.load(limits + row)
    counts = t < limit
    to = place(order, row, t, counts, steps, HAS_ORDER)
    cell = t.to(tl.int64) * batch + row
    bound = 0.0
    if HAS_BOUNDARY:
        bound += tl.load(boundary + cell - batch, (t > 0) & (t < tl.load(ends + row)), 0)
    if HAS_END:
        end = bound
        if HAS_STOP:
            end += tl.load(stop + row * (steps + extra + 1) + t)
        if HAS_ALIVE:
            end -= tl.load(alive + cell)
        tl.store(out + to * width + columns, end, counts)
    if HAS_OPENING:
        if HAS_OPENED:
            bound += tl.load(opened + cell)
        tl.store(out_opening + to, bound, counts)
    if HAS_UNITS:
        for first in range(0, columns, BLOCK):
            j = first + tl.arange(0, BLOCK)
            inside = (j < columns) & (t + 0 * j < limit)
            tl.store(out + to * width + j, tl.load(units + cell * columns + j, inside, 0), inside)


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.counted_rows`."""
    tensors = [None if one is None else one.contiguous() for one in inputs[:5]]
    if not supported(tensors[0], tensors[1]):
        return None
    outputs = counted_rows.shapes(*inputs)
    steps, batch = outputs[0].shape[:2]
    launch(counted_rows_kernel, (steps + 1, batch), *tensors, *outputs, *_sizes(inputs), **_kind(inputs))
    return outputs, None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``match_probs`` and ``opening``."""
    if not supported(inputs[0], inputs[1]):
        return None
    given, found = (
        [None if one is None else one.contiguous() for one in values]
        for values in (grads, (None if one is None else torch.zeros_like(one) for one in inputs[:2]))
    )
    names = ("UNITS", "OPENED", "BOUNDARY", "ALIVE", "STOP")
    has = {f"HAS_{name}": grad is not None for name, grad in zip(names, given, strict=True)}
    places = [None if one is None else one.contiguous() for one in inputs[2:5]]
    grid = (inputs[0].shape[1], inputs[0].shape[0])
    launch(counted_rows_gradient_kernel, grid, *places, *given, *found, *_sizes(inputs), **_kind(inputs), **has)
    return tuple(found)


def _sizes(inputs: Any) -> tuple[int, ...]:
    return (*inputs[0].shape, *inputs[5:])


def _kind(inputs: Any) -> dict[str, Any]:
    match_probs, opening, order, *_, columns, _ = inputs
    has = {"HAS_OPENING": opening is not None, "HAS_ORDER": order is not None}
    return {**has, "HAS_END": match_probs.shape[2] > columns, "BLOCK": lanes(columns, most=512)}
