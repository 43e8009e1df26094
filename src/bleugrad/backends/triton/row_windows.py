"""Rows in the order in which they count, time first, with everything about their end: a program per position."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bleugrad.backends.operation import Outputs
from bleugrad.backends.operations import row_windows
from bleugrad.backends.triton.launching import lanes, launch, supported


@triton.jit
def multiply(left, right):
    """For products over a block."""
    return left * right


@triton.jit
def row_limits(limits, more, row, most, HAS_MORE: tl.constexpr):
    """Positions of a sentence that count, before and after more are appended."""
    limit = tl.load(limits + row)
    added = limit * 0 + most
    if HAS_MORE:
        added = tl.load(more + row)
    return limit, tl.where(limit > 0, limit + added, 0)


@triton.jit
def sources(order, t, row, steps, limit, HAS_ORDER: tl.constexpr):
    """Where the counted positions t come from, and whether they count."""
    within = (t < limit) & (t < steps)
    source = t.to(tl.int64)
    if HAS_ORDER:
        source = tl.load(order + row * steps + t, within, 0)
    return source, within


@triton.jit
def row_windows_kernel(
    match_probs, opening, order, limits, more, units, alive, survival, stop, lengths, opened, boundary, new_limits,
    steps, batch, columns, long, most, HAS_OPENING: tl.constexpr, HAS_ORDER: tl.constexpr, HAS_MORE: tl.constexpr,
    ENDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Position t of a sentence, t = 0..T' (``long``), the last for the length T' alone."""
    row, t = tl.program_id(0).to(tl.int64), tl.program_id(1)
    limit, last = row_limits(limits, more, row, most, HAS_MORE)
    source, within = sources(order, t, row, steps, limit, HAS_ORDER)
    cell = t.to(tl.int64) * batch + row
    known = match_probs + (row * steps + source) * columns
    width = columns
    if ENDS:
        width = columns - 1
    for first in range(0, width, BLOCK):
        j = first + tl.arange(0, BLOCK)
        value = tl.load(known + j, (j < width) & (j * 0 + t < tl.minimum(limit, steps)), 0)
        tl.store(units + cell * width + j, value, (j < width) & (j * 0 + t < long))
    eos = 0.0
    if ENDS:
        reached = 1.0
        for first in range(0, t, BLOCK):
            s = first + tl.arange(0, BLOCK)
            place, counts = sources(order, s, row, steps, limit, HAS_ORDER)
            at = match_probs + (row * steps + place) * columns + width
            reached *= tl.reduce(1 - tl.load(at, counts & (s < t), 0), 0, multiply)
        eos = tl.load(known + width, within, 0)
        ended = eos + tl.where(t == last, 1.0, 0.0)
        tl.store(stop + row * (long + 1) + t, ended)
        if not HAS_OPENING:
            tl.store(lengths + row * (long + 1) + t, reached * ended)
        tl.store(alive + cell, 1 - eos, t < long)
        tl.store(survival + cell, reached * (1 - eos), t < long)
    if HAS_OPENING:
        beyond = tl.where(most > 0, 1.0, 0.0)
        tl.store(opened + cell, tl.load(opening + row * steps + source, within, beyond), t < long)
        after, counts = sources(order, t + 1, row, steps, limit, HAS_ORDER)
        can_end = tl.load(opening + row * steps + after, counts, beyond)
        if ENDS:
            can_end += tl.load(match_probs + (row * steps + after) * columns + width, counts, 0)
        tl.store(boundary + cell, tl.where(t + 1 >= last, 1.0, can_end), t < long)
    tl.store(new_limits + row, last, t == 0)


@triton.jit
def row_windows_gradient_kernel(
    match_probs, opening, order, limits, more, of_units, of_alive, of_survival, of_stop, of_lengths, of_opened,
    of_boundary, grad, grad_opening, steps, batch, columns, long, most,
    HAS_OPENING: tl.constexpr, HAS_ORDER: tl.constexpr, HAS_MORE: tl.constexpr, ENDS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Row ``source`` of the match probabilities; gradients that are None are 0."""
    row, source = tl.program_id(0).to(tl.int64), tl.program_id(1)
    limit, last = row_limits(limits, more, row, most, HAS_MORE)
    t = source
    if HAS_ORDER:
        t = source * 0 - 1
        for first in range(0, steps, BLOCK):
            s = first + tl.arange(0, BLOCK)
            place, counts = sources(order, s, row, steps, limit, HAS_ORDER)
            t = tl.maximum(t, tl.max(tl.where(counts & (place == source), s, -1), 0))
    within = t >= 0
    cell = t.to(tl.int64) * batch + row
    to = (row * steps + source) * columns
    width = columns
    if ENDS:
        width = columns - 1
    for first in range(0, width, BLOCK):
        j = first + tl.arange(0, BLOCK)
        value = tl.zeros([BLOCK], tl.float32)
        if of_units is not None:
            value = tl.load(of_units + cell * width + j, (j < width) & (j * 0 + t >= 0), 0)
        tl.store(grad + to + j, value, j < width)
    of_end = 0.0
    if HAS_OPENING and of_boundary is not None:
        of_end = tl.load(of_boundary + cell - batch, (t > 0) & (t < last), 0)
    if HAS_OPENING:
        found = of_end
        if of_opened is not None:
            found += tl.load(of_opened + cell, within, 0)
        tl.store(grad_opening + row * steps + source, found)
    if ENDS:
        sizes = row * (long + 1)
        found = of_end
        if of_stop is not None:
            found += tl.load(of_stop + sizes + t, within, 0)
        if of_alive is not None:
            found -= tl.load(of_alive + cell, within, 0)
        if of_lengths is not None or of_survival is not None:
            reached = 1.0
            for first in range(0, t, BLOCK):
                s = first + tl.arange(0, BLOCK)
                place, counts = sources(order, s, row, steps, limit, HAS_ORDER)
                at = match_probs + (row * steps + place) * columns + width
                reached *= tl.reduce(1 - tl.load(at, counts & (s < t), 0), 0, multiply)
            later = 0.0
            for i in range(long - t):
                l = long - i
                place, counts = sources(order, l, row, steps, limit, HAS_ORDER)
                eos = tl.load(match_probs + (row * steps + place) * columns + width, counts, 0)
                later *= 1 - eos
                if of_lengths is not None:
                    later += tl.load(of_lengths + sizes + l) * (eos + tl.where(l == last, 1.0, 0.0))
                if of_survival is not None:
                    later += tl.load(of_survival + l * batch + row, l < long, 0) * (1 - eos)
            own = -later
            if of_lengths is not None:
                own += tl.load(of_lengths + sizes + t, within, 0)
            if of_survival is not None:
                own -= tl.load(of_survival + cell, within, 0)
            found += reached * own
        tl.store(grad + to + width, tl.where(within, found, 0.0))


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.row_windows`."""
    if not supported(*inputs[:2]):
        return None
    outputs = row_windows.shapes(*inputs)
    _launch(row_windows_kernel, inputs, outputs, outputs[0].shape[0] + 1)
    return outputs, None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``match_probs`` and ``opening``."""
    match_probs, opening = inputs[:2]
    if not supported(match_probs, opening):
        return None
    given = [None if grad is None or not grad.numel() else grad.contiguous() for grad in grads[:7]]
    found = [None if one is None else torch.empty_like(one, memory_format=torch.contiguous_format)
             for one in (match_probs, opening)]  # fmt: skip
    _launch(row_windows_gradient_kernel, inputs, (*given, *found), match_probs.shape[1])
    return tuple(found)


def _launch(kernel: Any, inputs: Any, tensors: Any, positions: int) -> None:
    match_probs, opening, order, _limits, more, most, ends = inputs
    dense = (None if one is None else one.contiguous() for one in inputs[:5])
    batch, steps, columns = match_probs.shape
    has = {"HAS_OPENING": opening is not None, "HAS_ORDER": order is not None, "HAS_MORE": more is not None}
    sizes = (steps, batch, columns, steps + most, most)
    launch(kernel, (batch, positions), *dense, *tensors, *sizes, **has, ENDS=ends, BLOCK=lanes(columns, most=256))
