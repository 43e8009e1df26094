"""BLEU of the sums over a batch: one program forward."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bleugrad.backends.operation import Outputs
from bleugrad.backends.triton.launching import lanes, launch, supported

TINY = tl.constexpr(torch.finfo(torch.float32).tiny)


@triton.jit
def column_sum(values, column, rows, columns, BLOCK: tl.constexpr):
    """The sum of a column of (rows, columns)."""
    total = tl.zeros([BLOCK], tl.float64)
    for first in range(0, rows, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(values + at * columns + column, at < rows, 0).to(tl.float64)
    return tl.sum(total, 0)


@triton.jit
def brevity(length, wanted):
    """BP = 1 if length > wanted else exp(1 - wanted / length)."""
    return tl.exp(-tl.maximum(wanted - length, 0.0) / tl.maximum(length, 1e-30))


@triton.jit
def corpus_bleu_kernel(
    matches, totals, mass, lengths, wanted, out, state, batch, sizes, smoothing,
    WEIGHTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The value, and ``state``: the sums of matches and of totals of each order, the mean precision, and E[r]."""
    orders: tl.constexpr = len(WEIGHTS)
    mean = tl.zeros([], tl.float64)
    dead = tl.zeros([], tl.int32)
    for n in tl.static_range(orders):
        found = column_sum(matches, n, batch, orders, BLOCK) + smoothing
        total = column_sum(totals, n, batch, orders, BLOCK) + smoothing
        tl.store(state + n, found)
        tl.store(state + orders + n, total)
        precision = found / tl.maximum(total, TINY)
        if WEIGHTS[n] > 0:
            mean += WEIGHTS[n] * tl.log(tl.maximum(precision, TINY))
            dead += tl.where(precision < TINY, 1, 0)
    mean = tl.where(dead > 0, 0.0, tl.exp(mean))
    r = column_sum(wanted, 0, batch, 1, BLOCK)
    if mass is None:
        penalty = brevity(column_sum(lengths, 0, batch, 1, BLOCK), r)
    else:
        some = tl.zeros([BLOCK], tl.float64)
        for first in range(0, sizes, BLOCK):
            c = first + tl.arange(0, BLOCK)
            some += tl.load(mass + c, c < sizes, 0) * brevity(c.to(tl.float64), r)
        penalty = tl.sum(some, 0)
    tl.store(state + 2 * orders, mean)
    tl.store(state + 2 * orders + 1, r)
    tl.store(out, (mean * penalty).to(tl.float32))


@triton.jit
def corpus_bleu_gradient_kernel(
    grad, value, state, grad_matches, grad_totals, grad_mass, batch, sizes, WEIGHTS: tl.constexpr, BLOCK: tl.constexpr
):
    """A block of sentences, and of summed lengths. The sums do not depend on the sentence, nor does the gradient."""
    orders: tl.constexpr = len(WEIGHTS)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    given = tl.load(grad).to(tl.float64)
    whole = given * tl.load(value).to(tl.float64)
    mean, r = tl.load(state + 2 * orders), tl.load(state + 2 * orders + 1)
    alive = tl.where(mean > 0, 1.0, 0.0)
    for n in tl.static_range(orders):
        up = alive * whole * WEIGHTS[n] / tl.maximum(tl.load(state + n), TINY)
        down = alive * whole * WEIGHTS[n] / tl.maximum(tl.load(state + orders + n), TINY)
        tl.store(grad_matches + at * orders + n, (up + tl.zeros([BLOCK], tl.float64)).to(tl.float32), at < batch)
        tl.store(grad_totals + at * orders + n, (tl.zeros([BLOCK], tl.float64) - down).to(tl.float32), at < batch)
    if grad_mass is not None:
        tl.store(grad_mass + at, given * mean * brevity(at.to(tl.float64), r), at < sizes)


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.corpus_bleu`."""
    matches, _totals, mass, _lengths, _wanted, weights, smoothing = inputs
    if not supported(matches) or (mass is not None and mass.dtype != torch.float64):
        return None
    value, state = matches.new_empty(()), matches.new_empty(2 * len(weights) + 2, dtype=torch.float64)
    dense = (None if one is None else one.contiguous() for one in inputs[:5])
    sizes = 0 if mass is None else mass.numel()
    block = lanes(max(len(matches), sizes), most=1024)
    constants = {"WEIGHTS": tuple(weights), "BLOCK": block}
    launch(corpus_bleu_kernel, (1,), *dense, value, state, len(matches), sizes, smoothing, **constants)
    return (value,), state


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``matches``, ``totals`` and ``mass``."""
    matches, _, mass, _, _, weights, _ = inputs
    if kept is None:
        result = forward(True, *inputs)
        if result is None:
            return None
        kept = result[1]
    found = [None if one is None else torch.empty_like(one, memory_format=torch.contiguous_format)
             for one in inputs[:3]]  # fmt: skip
    sizes = 0 if mass is None else mass.numel()
    grid = (triton.cdiv(max(len(matches), sizes), 256),)
    arguments = (grads[0].contiguous(), outputs[0], kept, *found, len(matches), sizes)
    launch(corpus_bleu_gradient_kernel, grid, *arguments, WEIGHTS=tuple(weights), BLOCK=256)
    return tuple(found)
