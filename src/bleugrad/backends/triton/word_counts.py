"""The number of words, token by token: a program per sentence, lanes are numbers of words."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import word_counts
from bleugrad.backends.triton.launching import lanes, launch, supported


@triton.jit
def token_chances(opening, alive, limit, t, row, batch, steps, HAS_STOP: tl.constexpr):
    """The probabilities that token t is no EOS, and that it opens a word; the first token always opens one."""
    at = t * batch + row
    opens = tl.load(opening + at)
    lives = opens * 0 + 1.0
    if HAS_STOP:
        lives = tl.load(alive + at)
        opens = tl.where(t == 0, lives, opens)
    else:
        opens = tl.where(t < limit, tl.where(t == 0, 1.0, opens), 0.0)
    return lives, opens


@triton.jit
def word_counts_kernel(
    opening, limits, alive, stop, reached, out, steps, batch, HAS_STOP: tl.constexpr, BLOCK: tl.constexpr
):
    """Fills ``reached`` (B, T + 1, T + 1), the probability of each length in tokens and words, and the result."""
    row = tl.program_id(0).to(tl.int64)
    size = steps + 1
    table = reached + row * size * size
    limit = tl.load(limits + row)
    for t in range(size):
        ends = 0.0
        if HAS_STOP:
            ends = tl.load(stop + row * size + t)
        for first in range(0, size, BLOCK):
            w = first + tl.arange(0, BLOCK)
            here = tl.where(w == 0, 1.0, 0.0)
            if t > 0:
                lives, opens = token_chances(opening, alive, limit, t - 1, row, batch, steps, HAS_STOP)
                same = tl.load(table + (t - 1) * size + w, w < size, 0)
                fewer = tl.load(table + (t - 1) * size + w - 1, (w > 0) & (w < size), 0)
                here = same * (lives - opens) + fewer * opens
            tl.store(table + t * size + w, here, w < size)
            if HAS_STOP:
                before = tl.load(out + row * size + w, (w < size) & (w * 0 + t > 0), 0)
                tl.store(out + row * size + w, before + ends * here, w < size)
            else:
                tl.store(out + row * size + w, here, w < size)
        tl.debug_barrier()


@triton.jit
def word_counts_gradient_kernel(
    opening, limits, alive, stop, reached, grad, room, grad_opening, grad_alive, grad_stop, steps, batch,
    HAS_STOP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """``room`` (B, 2, T + 1) holds the gradients of two rows of ``reached`` in turn."""
    row = tl.program_id(0).to(tl.int64)
    size = steps + 1
    table = reached + row * size * size
    limit = tl.load(limits + row)
    for i in range(size):
        t = steps - i
        old, now = room + (row * 2 + i % 2) * size, room + (row * 2 + (i + 1) % 2) * size
        ends = tl.where(t == steps, 1.0, 0.0)
        if HAS_STOP:
            ends = tl.load(stop + row * size + t)
        lives, opens = token_chances(opening, alive, limit, tl.minimum(t, steps - 1), row, batch, steps, HAS_STOP)
        of_stop, stays, moves = 0.0, 0.0, 0.0
        for first in range(0, size, BLOCK):
            w = first + tl.arange(0, BLOCK)
            given = tl.load(grad + row * size + w, w < size, 0)
            here = tl.load(table + t * size + w, w < size, 0)
            of_stop += tl.sum(given * here, 0)
            same = tl.load(old + w, (w < size) & (w * 0 + i > 0), 0)
            more = tl.load(old + w + 1, (w + 1 < size) & (w * 0 + i > 0), 0)
            stays += tl.sum(same * here, 0)
            moves += tl.sum(more * here, 0)
            tl.store(now + w, given * ends + same * (lives - opens) + more * opens, w < size)
        if HAS_STOP:
            tl.store(grad_stop + row * size + t, of_stop)
        if i > 0:
            if HAS_STOP:
                tl.store(grad_alive + t * batch + row, tl.where(t == 0, moves, stays))
                tl.store(grad_opening + t * batch + row, tl.where(t == 0, 0.0, moves - stays))
            else:
                tl.store(grad_opening + t * batch + row, tl.where((t > 0) & (t < limit), moves - stays, 0.0))
        tl.debug_barrier()


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.word_counts`. Keeps T^2 numbers per sentence."""
    opening, _, _, stop = inputs
    steps, batch = opening.shape
    if not supported(opening) or not opening.numel():
        return None
    out = word_counts.shapes(*inputs)[0]
    reached = opening.new_empty(batch, steps + 1, steps + 1)
    constants: dict[str, Any] = {"HAS_STOP": stop is not None, "BLOCK": lanes(steps + 1)}
    launch(word_counts_kernel, (batch,), *_dense(inputs), reached, out, steps, batch, **constants)
    return (out,), (reached, constants)


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``opening``, ``alive`` and ``stop``."""
    if kept is None:
        result = forward(True, *inputs)
        if result is None:
            return None
        kept = result[1]
    reached, constants = kept
    opening, _, alive, stop = inputs
    steps, batch = opening.shape
    found = [None if one is None else torch.empty_like(one, memory_format=torch.contiguous_format)
             for one in (opening, alive, stop)]  # fmt: skip
    arguments = (*_dense(inputs), reached, grads[0].contiguous(), reached.new_empty(batch, 2, steps + 1), *found)
    launch(word_counts_gradient_kernel, (batch,), *arguments, steps, batch, **constants)
    return tuple(found)


def _dense(inputs: Any) -> list[Tensor | None]:
    return [None if one is None else one.contiguous() for one in inputs]
