"""Sums of new matches and expected totals: a program per sentence."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bleugrad.backends.operation import Outputs
from bleugrad.backends.operations import match_totals
from bleugrad.backends.triton.launching import lanes, launch, supported


@triton.jit
def match_totals_kernel(
    new_matches, boundary, probs, support, matches, totals, steps, batch, sizes, orders,
    HAS_BOUNDARY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A sentence and an order."""
    row, order = tl.program_id(0).to(tl.int64), tl.program_id(1)
    cell = row * orders + order
    found, total = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for first in range(0, steps, BLOCK):
        t = first + tl.arange(0, BLOCK)
        place = t.to(tl.int64) * batch + row
        new = tl.load(new_matches + place * orders + order, t < steps, 0)
        if HAS_BOUNDARY:
            new *= tl.load(boundary + place, t < steps, 0)
        found += new
    for first in range(0, sizes, BLOCK):
        l = first + tl.arange(0, BLOCK)
        length = l
        if support is not None:
            length = tl.load(support + row * sizes + l, l < sizes, 0).to(tl.int32)
        ngrams = tl.maximum(length - order, 0)
        total += tl.load(probs + row * sizes + l, l < sizes, 0) * ngrams.to(tl.float32)
    tl.store(matches + cell, tl.sum(found, 0))
    tl.store(totals + cell, tl.sum(total, 0))


@triton.jit
def match_totals_gradient_kernel(
    new_matches, boundary, probs, support, of_matches, of_totals, grad, grad_boundary, grad_probs,
    steps, batch, sizes, orders, HAS_BOUNDARY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A sentence; gradients that are None are 0."""
    row = tl.program_id(0).to(tl.int64)
    for first in range(0, steps, BLOCK):
        t = first + tl.arange(0, BLOCK)
        place = t.to(tl.int64) * batch + row
        of_boundary = tl.zeros([BLOCK], tl.float32)
        for order in range(orders):
            given = tl.zeros([BLOCK], tl.float32)
            if of_matches is not None:
                given += tl.load(of_matches + row * orders + order)
            at = place * orders + order
            if HAS_BOUNDARY:
                of_boundary += given * tl.load(new_matches + at, t < steps, 0)
                given *= tl.load(boundary + place, t < steps, 0)
            tl.store(grad + at, given, t < steps)
        if HAS_BOUNDARY:
            tl.store(grad_boundary + place, of_boundary, t < steps)
    for first in range(0, sizes, BLOCK):
        l = first + tl.arange(0, BLOCK)
        length = l
        if support is not None:
            length = tl.load(support + row * sizes + l, l < sizes, 0).to(tl.int32)
        found = tl.zeros([BLOCK], tl.float32)
        if of_totals is not None:
            for order in range(orders):
                given = tl.load(of_totals + row * orders + order)
                found += given * tl.maximum(length - order, 0).to(tl.float32)
        tl.store(grad_probs + row * sizes + l, found, l < sizes)


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.match_totals`."""
    if not supported(inputs[0]):
        return None
    outputs = match_totals.shapes(*inputs)
    _launch(match_totals_kernel, tuple(outputs[0].shape), inputs, outputs)
    return outputs, None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``new_matches``, ``boundary`` and ``probs``."""
    if not supported(inputs[0]):
        return None
    given = [None if grad is None else grad.contiguous() for grad in grads]
    found = [None if one is None else torch.empty_like(one, memory_format=torch.contiguous_format)
             for one in inputs[:3]]  # fmt: skip
    _launch(match_totals_gradient_kernel, (inputs[2].shape[0],), inputs, (*given, *found))
    return tuple(found)


def _launch(kernel: Any, grid: tuple[int, ...], inputs: Any, tensors: Any) -> None:
    new_matches, boundary, probs, _ = inputs
    steps, batch, orders = new_matches.shape
    dense = (None if one is None else one.contiguous() for one in inputs)
    sizes = (steps, batch, probs.shape[1], orders)
    block = lanes(max(steps, probs.shape[1]), most=256)
    launch(kernel, grid, *dense, *tensors, *sizes, HAS_BOUNDARY=boundary is not None, BLOCK=block)
