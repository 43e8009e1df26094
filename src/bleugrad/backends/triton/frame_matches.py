"""Expected matches of CTC frames: lanes are the automata of ``torch/automata.py``, frames are walked inside the kernel.

A program takes one sentence and one order. Each level of an n-gram is an automaton of its own, in the slots of
``torch/slots.py``; an occurrence leads to the automaton of the next slot if that is ``linked``.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.automata import automata
from bleugrad.backends.triton.launching import lanes, launch, supported


@triton.jit
def inflow(states, table, target, numbers, targets, lane, columns, on):
    """How likely each automaton is where its token leads to the target."""
    found = tl.where(on, 0.0, 0.0)
    for w in range(numbers):
        found += tl.load(states + w * columns + lane, on, 0) * tl.load(
            table + (w * targets + target) * columns + lane, on, 0
        )
    return found


@triton.jit
def program(table, places, landing, batch, columns, orders, targets):
    """The sentence of a program, where its numbers begin, its last target, and its part of the tables."""
    row, order = tl.program_id(0).to(tl.int64), tl.program_id(1)
    cell, size = row * orders + order, 2 * targets - 1
    own = cell * targets * columns
    stride = batch.to(tl.int64) * orders * columns
    return row, cell, size, tl.maximum(order, 1), table + own * size, places + own, landing + own, stride


@triton.jit
def frame_matches_kernel(
    tokens, blank, table, places, landing, weight, linked, states, made, out, steps, batch, columns, orders, targets,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Fills the states before each frame (T + 1, B, N, W, L), the occurrences (T, B, N, L) and the matches (B, N)."""
    row, cell, size, last, table, places, landing, stride = program(
        table, places, landing, batch, columns, orders, targets
    )
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, columns, BLOCK):
        lane = first + tl.arange(0, BLOCK)
        on = lane < columns
        next_level = tl.load(linked + cell * columns + lane, on, 0)
        counts = tl.load(weight + cell * columns + lane, on, 0)
        for w in range(2 * last + 1):
            start = tl.where(lane * 0 + w == 0, 1 - next_level, 0.0)
            tl.store(states + (cell * size + w) * columns + lane, start, on)
        tl.debug_barrier()
        for t in range(steps):
            at = (t * batch + row).to(tl.int64)
            silence = tl.load(blank + at)
            old = states + (t * stride + cell * columns) * size
            now = old + stride * size
            place = tl.load(places + last * columns + lane, on, 0)
            new = tl.load(tokens + at * columns + place, on, 0) * inflow(
                old, table, last, 2 * last + 1, targets, lane, columns, on
            )
            tl.store(made + t * stride + cell * columns + lane, new, on)
            total += new * counts
            tl.debug_barrier()
            risen = next_level * tl.load(made + t * stride + cell * columns + lane - 1, on & (lane > 0), 0)
            tl.store(now + lane, tl.load(old + lane, on, 0) - new + risen, on)
            for s in range(last):
                place = tl.load(places + s * columns + lane, on, 0)
                flow = tl.load(tokens + at * columns + place, on, 0) * inflow(
                    old, table, s, 2 * last + 1, targets, lane, columns, on
                )
                flow += risen * tl.load(landing + s * columns + lane, on, 0)
                tl.store(now + (1 + s) * columns + lane, flow, on)
                held = tl.load(old + (1 + s) * columns + lane, on, 0)
                held += tl.load(old + (1 + last + s) * columns + lane, on, 0)
                tl.store(now + (1 + last + s) * columns + lane, silence * held, on)
            tl.debug_barrier()
    tl.store(out + cell, tl.sum(total, 0))


@triton.jit
def frame_matches_gradient_kernel(
    tokens, blank, table, places, landing, weight, linked, states, above, grad, of_states, out,
    steps, batch, columns, orders, targets, BLOCK: tl.constexpr,
):  # fmt: skip
    """The adjoint. ``above`` (T, B, N, L) and ``of_states`` (2, B, N, W, L) are room to work in.

    ``out``, 0 at first, takes for each order the gradients of the tokens (T, B, L), then of blank (T, B).
    """
    row, cell, size, last, table, places, landing, stride = program(
        table, places, landing, batch, columns, orders, targets
    )
    cells = steps.to(tl.int64) * batch
    out += tl.program_id(1) * cells * (columns + 1)
    given = tl.load(grad + cell)
    for block in range(0, columns, BLOCK):
        lane = (columns - 1) // BLOCK * BLOCK - block + tl.arange(0, BLOCK)
        on = lane < columns
        own = given * tl.load(weight + cell * columns + lane, on, 0)
        next_level = tl.load(linked + cell * columns + lane + 1, lane + 1 < columns, 0)
        for i in range(steps):
            t = steps - 1 - i
            at = (t * batch + row).to(tl.int64)
            silence = tl.load(blank + at)
            old = states + (t * stride + cell * columns) * size
            after = of_states + ((i % 2) * stride + cell * columns) * size
            before = of_states + ((1 - i % 2) * stride + cell * columns) * size
            known = on & (lane * 0 + i > 0)
            level = tl.load(after + lane, known, 0)
            higher = level
            for s in range(last):
                landed = tl.load(landing + s * columns + lane, on, 0)
                higher += landed * tl.load(after + (1 + s) * columns + lane, known, 0)
            tl.store(above + t * stride + cell * columns + lane, higher, on)
            tl.debug_barrier()
            higher = tl.load(above + t * stride + cell * columns + lane + 1, lane + 1 < columns, 0)
            of_new = own - level + next_level * higher
            of_blank = tl.zeros([BLOCK], tl.float32)
            for w in range(2 * last + 1):
                tl.store(before + w * columns + lane, tl.where(lane * 0 + w == 0, level, 0.0), on)
            tl.debug_barrier()
            for j in range(last + 1):
                flow = tl.load(after + (1 + j) * columns + lane, known & (lane * 0 + j < last), 0)
                flow = tl.where(lane * 0 + j == last, of_new, flow)
                place = tl.load(places + j * columns + lane, on, 0)
                reached = inflow(old, table, j, 2 * last + 1, targets, lane, columns, on)
                tl.atomic_add(out + at * columns + place, flow * reached, on)
                pulled = flow * tl.load(tokens + at * columns + place, on, 0)
                for w in range(2 * last + 1):
                    to = before + w * columns + lane
                    leads = tl.load(table + (w * targets + j) * columns + lane, on, 0)
                    tl.store(to, tl.load(to, on, 0) + leads * pulled, on)
            for s in range(last):
                of_held = tl.load(after + (1 + last + s) * columns + lane, known, 0)
                for part in range(2):
                    w = 1 + s + part * last
                    of_blank += of_held * tl.load(old + w * columns + lane, on, 0)
                    to = before + w * columns + lane
                    tl.store(to, tl.load(to, on, 0) + silence * of_held, on)
            tl.atomic_add(out + cells * columns + at, tl.sum(of_blank, 0))
            tl.debug_barrier()


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.frame_matches`. Keeps the automata and their states before each frame."""
    token_probs, blank, clips, _, ids = inputs
    if not supported(token_probs):
        return None
    steps, batch, columns = token_probs.shape
    orders = clips.shape[1]
    out = token_probs.new_zeros(batch, orders)
    if token_probs.numel() == 0:
        return (out,), None
    tables = _tables(clips, ids, token_probs)
    targets = max(orders, 2)
    states = token_probs.new_empty(steps + 1, batch, orders, 2 * targets - 1, columns)
    made = token_probs.new_empty(steps, batch, orders, columns)
    sizes = (steps, batch, columns, orders, targets)
    arguments = (token_probs.contiguous(), blank.contiguous(), *tables, states, made, out, *sizes)
    launch(frame_matches_kernel, (batch, orders), *arguments, BLOCK=lanes(columns, most=512))
    return (out,), (tables, states)


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, Tensor] | None:
    """The gradients of ``token_probs`` and ``blank``."""
    token_probs, blank, clips, *_ = inputs
    if not supported(token_probs):
        return None
    if token_probs.numel() == 0:
        return torch.zeros_like(token_probs), torch.zeros_like(blank)
    tables, states = forward(True, *inputs)[1] if kept is None else kept  # type: ignore[index]
    steps, batch, columns = token_probs.shape
    orders = clips.shape[1]
    parts = token_probs.new_zeros(orders, steps * batch * (columns + 1))
    room = token_probs.new_empty(steps, batch, orders, columns), torch.empty_like(states[:2])
    sizes = (steps, batch, columns, orders, max(orders, 2))
    given = (token_probs.contiguous(), blank.contiguous(), *tables, states, room[0], grads[0].contiguous(), room[1])
    launch(frame_matches_gradient_kernel, (batch, orders), *given, parts, *sizes, BLOCK=lanes(columns, most=512))
    of_tokens, of_blank = parts.sum(0).split([token_probs.numel(), steps * batch])
    return of_tokens.view(token_probs.shape), of_blank.view(steps, batch)


def _tables(clips: Tensor, ids: Tensor, like: Tensor) -> list[Tensor]:
    """The automata of all orders, slots last.

    Tables (B, N, W, J, L), columns and landings (B, N, J, L), which slots are used and linked (B, N, L).
    """
    targets, pad, found = max(clips.shape[1], 2), torch.nn.functional.pad, []
    for one in automata(clips, ids, like.dtype, like.shape[0], merging=True):
        own = targets - one.columns.shape[2]
        table = pad(one.table, (0, own, 0, 2 * own)).permute(0, 2, 3, 1)
        columns, landing = pad(one.columns, (0, own)), pad(one.landing, (0, own + 1))
        found.append((table, columns.mT, landing.mT, one.used, one.linked))
    return [torch.stack(parts, 1) for parts in zip(*found, strict=True)]
