"""Match probabilities in one read of the logits, and their gradient in one write."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import row_probabilities
from bleugrad.backends.triton.launching import lanes, launch, supported


@triton.jit
def row_probabilities_kernel(
    logits, ids, targets, word_start, matched, log_probs, opening, log_normaliser,
    steps, size, number, chosen, HAS_STARTS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A row: its log-normaliser in one pass, then the probabilities of single tokens. Ids out of range give NaN."""
    row = tl.program_id(0).to(tl.int64)
    x = logits + row * size
    peak = tl.full([], float("-inf"), tl.float32)
    total, opens = tl.zeros([], tl.float32), tl.zeros([], tl.float32)
    for first in range(0, size, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + at, at < size, float("-inf")).to(tl.float32)
        highest = tl.maximum(peak, tl.max(value, 0))
        shift = tl.where(highest == float("-inf"), 0.0, highest)  # nothing but -inf so far
        scale = tl.exp(peak - shift)
        power = tl.exp(value - shift)
        total = total * scale + tl.sum(power, 0)
        if HAS_STARTS:
            starts = tl.load(word_start + at, at < size, 0).to(tl.float32)
            opens = opens * scale + tl.sum(power * starts, 0)
        peak = highest
    lse = tl.where(peak == float("-inf"), 0.0, peak) + tl.log(total)
    tl.store(log_normaliser + row, lse)
    if HAS_STARTS:
        tl.store(opening + row, opens / total)
    for first in range(0, number, COLUMNS):
        at = first + tl.arange(0, COLUMNS)
        token = tl.load(ids + (row // steps) * number + at, at < number, 0)
        known = (token >= 0) & (token < size)
        value = tl.load(x + token, known & (at < number), float("nan")).to(tl.float32)
        tl.store(matched + row * number + at, tl.exp(value - lse), at < number)
    if targets is not None:
        for j in range(chosen):
            token = tl.load(targets + row * chosen + j)
            tl.store(log_probs + row * chosen + j, tl.load(x + token).to(tl.float32) - lse)


@triton.jit
def token_pull(
    token, ids, targets, matched, grad_matched, grad_log_probs, row, steps, number, chosen,
    HAS_MATCHED: tl.constexpr, HAS_TARGETS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The sum of the gradients of single tokens for the logits of the given tokens, in a fixed order."""
    found = tl.zeros(token.shape, tl.float32)
    if HAS_MATCHED:
        for first in range(0, number, COLUMNS):
            at = first + tl.arange(0, COLUMNS)
            other = tl.load(ids + (row // steps) * number + at, at < number, -1)
            pull = tl.load(matched + row * number + at, at < number, 0)
            pull *= tl.load(grad_matched + row * number + at, at < number, 0)
            found += tl.sum(tl.where(token[:, None] == other[None, :], pull[None, :], 0.0), 1)
    if HAS_TARGETS:
        for j in range(chosen):
            own = tl.load(grad_log_probs + row * chosen + j)
            found += tl.where(token == tl.load(targets + row * chosen + j), own, 0.0)
    return found


@triton.jit
def row_gradient_kernel(
    logits, ids, targets, word_start, matched, opening, log_normaliser, grad_matched, grad_log_probs, grad_opening, out,
    steps, size, number, chosen, HAS_MATCHED: tl.constexpr, HAS_TARGETS: tl.constexpr, HAS_STARTS: tl.constexpr,
    BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A row: softmax times a number, then the single tokens written over it; the same token always gets one value."""
    row = tl.program_id(0).to(tl.int64)
    total, opens = tl.zeros([], tl.float32), tl.zeros([], tl.float32)
    if HAS_MATCHED:
        for first in range(0, number, COLUMNS):
            at = row * number + first + tl.arange(0, COLUMNS)
            inside = first + tl.arange(0, COLUMNS) < number
            total += tl.sum(tl.load(matched + at, inside, 0) * tl.load(grad_matched + at, inside, 0), 0)
    if HAS_TARGETS:
        for j in range(chosen):
            total += tl.load(grad_log_probs + row * chosen + j)
    if HAS_STARTS:
        opens = tl.load(grad_opening + row)
        total += opens * tl.load(opening + row)
    lse = tl.load(log_normaliser + row)
    broken = (total != total) | (lse != lse) | (tl.abs(lse) == float("inf"))
    for first in range(0, size, BLOCK):
        at = first + tl.arange(0, BLOCK)
        prob = tl.exp(tl.load(logits + row * size + at, at < size, 0).to(tl.float32) - lse)
        factor = -total + tl.zeros([BLOCK], tl.float32)
        if HAS_STARTS:
            factor += opens * tl.load(word_start + at, at < size, 0).to(tl.float32)
        tl.store(out + row * size + at, tl.where(broken, 0.0, prob * factor).to(out.dtype.element_ty), at < size)
    tl.debug_barrier()
    pieces = tl.cdiv(number, COLUMNS) if HAS_MATCHED else 0
    for piece in range(pieces + (chosen if HAS_TARGETS else 0)):
        at = piece * COLUMNS + tl.arange(0, COLUMNS)
        token = tl.load(ids + (row // steps) * number + at, at < tl.minimum(number, pieces * COLUMNS), -1)
        if HAS_TARGETS:
            own = tl.load(targets + row * chosen + piece - pieces, piece >= pieces, -1)
            token = tl.where(piece >= pieces, tl.where(tl.arange(0, COLUMNS) == 0, own, -1), token)
        known = (token >= 0) & (token < size)
        prob = tl.exp(tl.load(logits + row * size + token, known, 0).to(tl.float32) - lse)
        factor = -total + tl.zeros([COLUMNS], tl.float32)
        if HAS_STARTS:
            factor += opens * tl.load(word_start + token, known, 0).to(tl.float32)
        pull = token_pull(
            token, ids, targets, matched, grad_matched, grad_log_probs, row, steps, number, chosen,
            HAS_MATCHED, HAS_TARGETS, COLUMNS,
        )  # fmt: skip
        value = tl.where(broken, 0.0, prob * factor + pull)
        tl.store(out + row * size + token, value.to(out.dtype.element_ty), known)


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.row_probabilities`. Keeps the log-normalisers (B T,)."""
    logits, ids, targets, word_start = inputs
    if not supported(logits):
        return None
    outputs = row_probabilities.shapes(*inputs)
    log_normaliser = outputs[0].new_empty(logits.shape[0] * logits.shape[1])
    has_starts = word_start is not None
    launch(
        row_probabilities_kernel,
        (log_normaliser.numel(),),
        *(_dense(one) for one in inputs),
        *outputs,
        log_normaliser,
        *_sizes(logits, ids, targets),
        HAS_STARTS=has_starts,
        **_blocks(logits, ids),
    )
    return outputs, log_normaliser


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the logits."""
    logits, ids, targets, _word_start = inputs
    if not supported(logits):
        return None
    if kept is None:
        kept = forward(True, *inputs)[1]  # type: ignore[index]
    matched, _, opening = outputs
    given = [None if grad is None or not grad.numel() else grad.contiguous() for grad in grads]
    out = torch.empty_like(logits, memory_format=torch.contiguous_format)
    launch(
        row_gradient_kernel,
        (kept.numel(),),
        *(_dense(one) for one in inputs),
        matched,
        opening,
        kept,
        *given,
        out,
        *_sizes(logits, ids, targets),
        HAS_MATCHED=given[0] is not None,
        HAS_TARGETS=given[1] is not None,
        HAS_STARTS=given[2] is not None,
        **_blocks(logits, ids),
    )
    return (out,)


def _dense(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _sizes(logits: Tensor, ids: Tensor, targets: Tensor | None) -> tuple[int, ...]:
    return logits.shape[1], logits.shape[2], ids.shape[1], 0 if targets is None else targets.shape[2]


def _blocks(logits: Tensor, ids: Tensor) -> dict[str, int]:
    return {"BLOCK": lanes(logits.shape[2], most=4096), "COLUMNS": lanes(ids.shape[1], most=64)}
