"""The renewal recursion of ``torch/renewal.py``: lanes are n-grams, and positions are walked inside the kernel.

A program takes one sentence and one order. An n-gram with clip c has c *slots* side by side, one for each k, see
``torch/slots.py``. So (T, B, N, L) holds the histories of all slots.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.triton.launching import lanes, launch, supported


@triton.jit
def last_units(units, spans, e, number, end, row, batch, columns, inside, HAS_SPANS: tl.constexpr):
    """The probability that the last ``number`` units of each n-gram stand before and at e, and their tokens.

    ``end`` is the column after the n-gram, ``row`` the sentence.
    """
    prob = tl.where(inside, 1.0, 0.0)
    back = tl.zeros(end.shape, tl.int32)
    for s in range(1, number + 1):
        at = e - back
        prob *= tl.load(units + (at.to(tl.int64) * batch + row) * columns + end - s, inside & (at >= 0), 0)
        if HAS_SPANS:
            back += tl.load(spans + row * columns + end - s, inside, 1).to(tl.int32)
        else:
            back += 1
    return prob, back


@triton.jit
def pattern_lanes(clips, overlaps, spans, row, order, orders, batch, columns, steps, first, taken,
                  HAS_SPANS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """A block of n-grams: columns, clips, slots, slots taken after it, most states, shifts to look at, tokens."""
    j = first + tl.arange(0, BLOCK)
    at = (row * orders + order - 1) * columns + j
    clip = tl.minimum(tl.load(clips + at, j < columns, 0), steps).to(tl.int32)
    clip = tl.where(j + order <= columns, clip, 0)
    slot = taken + tl.cumsum(clip, 0) - clip
    overlapping = 0
    back = tl.zeros([BLOCK], tl.int32)
    for s in range(1, order + 1):
        if HAS_SPANS:
            back += tl.load(spans + row * columns + j + order - s, clip > 0, 1).to(tl.int32)
        else:
            back += 1
        same = tl.load(overlaps + (s - 1) * batch * orders * columns + at, (clip > 0) & (back * 0 + s < order), 0)
        overlapping += tl.sum(same.to(tl.int32), 0)
    depth = tl.where(overlapping > 0, order, 1)
    return j, clip, slot, taken + tl.sum(clip, 0), tl.max(clip, 0), depth, back


@triton.jit
def exact_matches_kernel(
    units, alive, opening, clips, overlaps, spans, levels, moves, out, steps, batch, columns, orders,
    HAS_ALIVE: tl.constexpr, HAS_OPENING: tl.constexpr, HAS_SPANS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Fills the histories N and v, ``levels`` and ``moves`` (T, B, N, L), and the new matches (T, B, N)."""
    row, order = tl.program_id(0).to(tl.int64), tl.program_id(1) + 1
    stride = batch.to(tl.int64) * orders * columns
    base = (row * orders + order - 1) * columns
    zero = tl.zeros([BLOCK], tl.int32)  # makes a mask of a vector from one of a number, which the interpreter needs
    taken = 0
    for first in range(0, columns, BLOCK):
        j, clip, slot, taken, most, depth, lag = pattern_lanes(
            clips, overlaps, spans, row, order, orders, batch, columns, steps, first, taken, HAS_SPANS, BLOCK
        )
        at = base + j
        for e in range(steps):
            lives = 1.0
            opens = 0.0
            if HAS_ALIVE:
                lives = tl.load(alive + e * batch + row)
            if HAS_OPENING:
                opens = tl.load(opening + e * batch + row)
            window, _seen = last_units(
                units, spans, e + zero, order, j + order, row, batch, columns, clip > 0, HAS_SPANS
            )
            shorter = tl.zeros([BLOCK], tl.float32)
            total = tl.zeros([BLOCK], tl.float32)
            for k in range(most):
                on = k < clip
                here = base + slot + k
                start = tl.where(k == 0, 1.0, 0.0)
                before = e - lag
                made = window * tl.load(levels + before.to(tl.int64) * stride + here, on & (before >= 0), start)
                for s in range(1, depth):
                    same = on & tl.load(overlaps + (s - 1) * stride + at, on, 0).to(tl.int1)
                    tail, back = last_units(units, spans, e + zero, s, j + order, row, batch, columns, same, HAS_SPANS)
                    earlier = e - back
                    made -= tail * tl.load(moves + earlier.to(tl.int64) * stride + here, same & (earlier >= 0), 0)
                move = made - shorter
                level = tl.load(levels + (e - 1) * stride + here, on & (zero + e > 0), start)
                moved = tl.load(moves + (e - 1) * stride + here, on & (zero + e > 0), 0)
                if HAS_OPENING:
                    level = lives * (level + moved) - opens * moved - move
                else:
                    level = lives * level - move
                tl.store(levels + e * stride + here, level, on)
                tl.store(moves + e * stride + here, move, on)
                total += tl.where(on, made, 0.0)
                shorter = made
            cell = out + (e * batch + row) * orders + order - 1
            if first == 0:
                tl.store(cell, tl.sum(total, 0))
            else:
                tl.atomic_add(cell, tl.sum(total, 0))
            tl.debug_barrier()


@triton.jit
def exact_matches_gradient_kernel(
    units, alive, opening, clips, overlaps, spans, levels, moves, grad, of_new, of_known, out,
    steps, batch, columns, orders,
    HAS_ALIVE: tl.constexpr, HAS_OPENING: tl.constexpr, HAS_SPANS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The adjoint. ``of_new`` (T, B, N, L) and ``of_known`` (B, N, L) are room to work in.

    ``out`` takes for each order the gradients of the units (T, B, L), then of ``alive`` and of ``opening`` (T, B).
    """
    row, order = tl.program_id(0).to(tl.int64), tl.program_id(1) + 1
    stride = batch.to(tl.int64) * orders * columns
    base = (row * orders + order - 1) * columns
    cells = steps.to(tl.int64) * batch
    out += (order - 1) * cells * (columns + 2)
    for e in range(steps):
        cell = e * batch + row
        for first in range(0, columns, BLOCK):
            at = first + tl.arange(0, BLOCK)
            tl.store(out + cell * columns + at, tl.zeros([BLOCK], tl.float32), at < columns)
        tl.store(out + cells * columns + cell, 0.0)
        tl.store(out + cells * (columns + 1) + cell, 0.0)
    tl.debug_barrier()
    zero = tl.zeros([BLOCK], tl.int32)  # makes a mask of a vector from one of a number, which the interpreter needs
    taken = 0
    for first in range(0, columns, BLOCK):
        j, clip, slot, taken, most, depth, lag = pattern_lanes(
            clips, overlaps, spans, row, order, orders, batch, columns, steps, first, taken, HAS_SPANS, BLOCK
        )
        at = base + j
        for i in range(steps):
            e = steps - 1 - i
            lives = 1.0
            opens = 0.0
            if HAS_ALIVE:
                lives = tl.load(alive + (e + 1) * batch + row, i > 0, 1.0)
            if HAS_OPENING:
                opens = tl.load(opening + (e + 1) * batch + row, i > 0, 0.0)
            given = tl.load(grad + (e * batch + row) * orders + order - 1)
            ahead = e + lag
            fits = (clip > 0) & (ahead < steps)
            window, _seen = last_units(units, spans, ahead, order, j + order, row, batch, columns, fits, HAS_SPANS)
            higher = tl.zeros([BLOCK], tl.float32)
            of_window = tl.zeros([BLOCK], tl.float32)
            of_alive = tl.zeros([BLOCK], tl.float32)
            of_opening = tl.zeros([BLOCK], tl.float32)
            for down in range(most):
                k = most - 1 - down
                on = k < clip
                here = base + slot + k
                start = tl.where(k == 0, 1.0, 0.0)
                of_level = window * tl.load(of_new + ahead.to(tl.int64) * stride + here, on & fits, 0)
                known = tl.load(of_known + here, on & (zero + i > 0), 0)
                if HAS_OPENING:
                    of_move = -of_level - opens * known
                else:
                    of_move = -of_level - lives * known
                known = of_level + lives * known
                tl.store(of_known + here, known, on)
                level = tl.load(levels + (e - 1) * stride + here, on & (zero + e > 0), start)
                moved = tl.load(moves + (e - 1) * stride + here, on & (zero + e > 0), 0)
                of_opening -= tl.where(on, known * moved, 0.0)
                if HAS_OPENING:
                    level += moved
                of_alive += tl.where(on, known * level, 0.0)
                for s in range(1, depth):
                    same = on & tl.load(overlaps + (s - 1) * stride + at, on, 0).to(tl.int1)
                    _ignored, back = last_units(units, spans, lag, s, j + order, row, batch, columns, same, HAS_SPANS)
                    later = e + back
                    same = same & (later < steps)
                    tail, _seen = last_units(units, spans, later, s, j + order, row, batch, columns, same, HAS_SPANS)
                    of_move -= tail * tl.load(of_new + later.to(tl.int64) * stride + here, same, 0)
                made = given + of_move - higher
                tl.store(of_new + e * stride + here, made, on)
                before = e - lag
                level = tl.load(levels + before.to(tl.int64) * stride + here, on & (before >= 0), start)
                of_window += tl.where(on, made * level, 0.0)
                higher = tl.where(on, of_move, 0.0)
            cell = e * batch + row
            tl.atomic_add(out + cells * columns + cell, tl.sum(of_alive, 0))
            tl.atomic_add(out + cells * (columns + 1) + cell, tl.sum(of_opening, 0))
            tl.debug_barrier()
            for down in range(order):
                s = order - down
                if depth > 1:
                    for k in range(most):
                        same = (k < clip) & (zero + s < order)
                        same = same & tl.load(overlaps + (s - 1) * stride + at, same, 0).to(tl.int1)
                        _ignored, back = last_units(
                            units, spans, lag, s, j + order, row, batch, columns, same, HAS_SPANS
                        )
                        here = base + slot + k
                        moved = tl.load(moves + (e - back).to(tl.int64) * stride + here, same & (e >= back), 0)
                        of_window -= tl.load(of_new + e * stride + here, same, 0) * moved
                shorter, back = last_units(
                    units, spans, e + zero, s - 1, j + order, row, batch, columns, clip > 0,
                    HAS_SPANS,
                )  # fmt: skip
                place = (e - back).to(tl.int64) * batch + row
                inside = (clip > 0) & (e >= back)
                to = out + place * columns + j + order - s
                tl.store(to, tl.load(to, inside, 0) + of_window * shorter, inside)
                of_window *= tl.load(units + place * columns + j + order - s, inside, 0)
                tl.debug_barrier()


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.exact_matches`. Keeps the histories of N and v."""
    units, _alive, _opening, clips, _, _ = inputs
    if not supported(units):
        return None
    steps, batch, columns = units.shape
    histories = units.new_empty(2, steps, batch, clips.shape[1], columns)
    if columns == 0:
        return (units.new_zeros(steps, batch, clips.shape[1]),), histories
    out = units.new_empty(steps, batch, clips.shape[1])
    launch(
        exact_matches_kernel,
        (batch, clips.shape[1]),
        *_dense(inputs),
        *histories,
        out,
        *_sizes(inputs),
        **_kind(inputs),
    )
    return (out,), histories


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``unit_probs``, ``alive`` and ``opening``."""
    units, clips = inputs[0], inputs[3]
    if not supported(units):
        return None
    if kept is None:
        kept = forward(True, *inputs)[1]  # type: ignore[index]
    steps, batch, columns = units.shape
    orders = clips.shape[1]
    parts = units.new_empty(orders, steps * batch * (columns + 2))
    if columns == 0:
        parts.zero_()
    else:
        room = torch.empty_like(kept[0]), units.new_empty(batch, orders, columns)
        arguments = (*_dense(inputs), *kept, grads[0].contiguous(), *room, parts)
        launch(exact_matches_gradient_kernel, (batch, orders), *arguments, *_sizes(inputs), **_kind(inputs))
    of_units, of_alive, of_opening = parts.sum(0).split([units.numel(), steps * batch, steps * batch])
    return of_units.view(units.shape), of_alive.view(steps, batch), of_opening.view(steps, batch)


def _dense(inputs: Any) -> list[Tensor | None]:
    return [None if one is None else one.contiguous() for one in inputs]


def _sizes(inputs: Any) -> tuple[int, ...]:
    return (*inputs[0].shape, inputs[3].shape[1])


def _kind(inputs: Any) -> dict[str, Any]:
    units, alive, opening, _, _, spans = inputs
    has = {"HAS_ALIVE": alive is not None, "HAS_OPENING": opening is not None, "HAS_SPANS": spans is not None}
    return {**has, "BLOCK": _block(units.shape[2])}


def _block(columns: int) -> int:
    return lanes(columns, most=512)
