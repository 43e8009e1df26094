"""The products of the probabilities of each word's tokens: a program per position, sentence and block of words."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import word_probabilities
from bleugrad.backends.triton.launching import lanes, launch, supported


@triton.jit
def word_products(probs, t, start, span, used, row, batch, columns, longest, left_out, BLOCK: tl.constexpr):
    """The product over the tokens of the words ending at t, without the token ``left_out`` from the last."""
    product = tl.where(used, 1.0, 0.0)
    for back in range(longest):
        factor = used & (back < span) & (span * 0 + back != left_out)
        at = (t - back).to(tl.int64) * batch + row
        value = tl.load(probs + at * columns + start + span - 1 - back, factor & (span * 0 + t >= back), 0)
        product *= tl.where(factor, value, 1.0)
    return product


@triton.jit
def word_probabilities_kernel(
    probs, starts, spans, continued, grad, out, batch, columns, words, BACKWARD: tl.constexpr, BLOCK: tl.constexpr
):
    """The probabilities (T, B, W), or the gradient of ``probs`` (T, B, L)."""
    t, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    w = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    at = row * words + w
    start, span = tl.load(starts + at, w < words, 0), tl.load(spans + at, w < words, 1)
    allowed = (w < words) & ((tl.load(continued + at, w < words, 0) == 0) | (span == t + 1))
    longest = tl.max(span, 0)
    cell = (t.to(tl.int64) * batch + row) * words + w
    if BACKWARD:
        given = tl.load(grad + cell, allowed, 0)
        for back in range(longest):
            other = word_products(probs, t, start, span, allowed, row, batch, columns, longest, back, BLOCK)
            to = ((t - back).to(tl.int64) * batch + row) * columns + start + span - 1 - back
            adds = allowed & (back < span) & (span * 0 + t >= back) & (given != 0)
            tl.atomic_add(out + to, given * other, adds)  # words that do not exist share a column with others
    else:
        product = word_products(probs, t, start, span, allowed, row, batch, columns, longest, -1, BLOCK)
        tl.store(out + cell, product, w < words)


def forward(keep: bool, *inputs: Tensor) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.word_probabilities`."""
    if not supported(inputs[0]):
        return None
    out = word_probabilities.shapes(*inputs)[0]
    _launch(inputs, None, out)
    return (out,), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the match probabilities."""
    if not supported(inputs[0]):
        return None
    out = torch.zeros_like(inputs[0], memory_format=torch.contiguous_format)
    _launch(inputs, grads[0].contiguous(), out)
    return (out,)


def _launch(inputs: Any, grad: Tensor | None, out: Tensor) -> None:
    steps, batch, columns = inputs[0].shape
    words = inputs[1].shape[1]
    block = lanes(words, most=128)
    grid = (steps, batch, triton.cdiv(words, block))
    arguments = (*(one.contiguous() for one in inputs), grad, out, batch, columns, words)
    launch(word_probabilities_kernel, grid, *arguments, BACKWARD=grad is not None, BLOCK=block)
