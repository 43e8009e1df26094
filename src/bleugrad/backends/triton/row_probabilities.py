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
    logits, ids, targets, word_start, sharpness, matched, log_probs, opening, means, normalisers,
    steps, size, number, chosen, HAS_TARGETS: tl.constexpr, HAS_STARTS: tl.constexpr, BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """A row: its normalisers in one pass, then the probabilities of single tokens. Ids out of range give NaN."""
    row = tl.program_id(0).to(tl.int64)
    x = logits + row * size
    peak = tl.full([], float("-inf"), tl.float32)
    plain, sharp = tl.zeros([], tl.float32), tl.zeros([], tl.float32)
    opens, logit_sum = tl.zeros([], tl.float32), tl.zeros([], tl.float32)
    for first in range(0, size, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + at, at < size, float("-inf")).to(tl.float32)
        highest = tl.maximum(peak, tl.max(value, 0))
        shift = tl.where(highest == float("-inf"), 0.0, highest)  # nothing but -inf so far
        plain = plain * tl.exp(peak - shift) + tl.sum(tl.exp(value - shift), 0)
        scale, power = tl.exp(sharpness * (peak - shift)), tl.exp(sharpness * (value - shift))
        sharp = sharp * scale + tl.sum(power, 0)
        if HAS_STARTS:
            starts = tl.load(word_start + at, at < size, 0).to(tl.float32)
            opens = opens * scale + tl.sum(power * starts, 0)
        if HAS_TARGETS:
            logit_sum += tl.sum(tl.where(at < size, value, 0.0), 0)
        peak = highest
    log_plain, log_sharp = tl.log(plain), tl.log(sharp)
    tl.store(normalisers + 3 * row, peak)
    tl.store(normalisers + 3 * row + 1, log_plain)
    tl.store(normalisers + 3 * row + 2, log_sharp)
    if HAS_STARTS:
        tl.store(opening + row, opens / sharp)
    for first in range(0, number, COLUMNS):
        at = first + tl.arange(0, COLUMNS)
        token = tl.load(ids + (row // steps) * number + at, at < number, 0)
        known = (token >= 0) & (token < size)
        value = tl.load(x + token, known & (at < number), float("nan")).to(tl.float32)
        tl.store(matched + row * number + at, tl.exp(sharpness * (value - peak) - log_sharp), at < number)
    if HAS_TARGETS:
        tl.store(means + row, logit_sum / size - peak - log_plain)
        for j in range(chosen):
            token = tl.load(targets + row * chosen + j)
            tl.store(log_probs + row * chosen + j, tl.load(x + token).to(tl.float32) - peak - log_plain)


@triton.jit
def token_pull(
    token, ids, targets, sharpness, matched, grad_matched, grad_log_probs, row, steps, number, chosen,
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
            found += sharpness * tl.sum(tl.where(token[:, None] == other[None, :], pull[None, :], 0.0), 1)
    if HAS_TARGETS:
        for j in range(chosen):
            own = tl.load(grad_log_probs + row * chosen + j)
            found += tl.where(token == tl.load(targets + row * chosen + j), own, 0.0)
    return found


@triton.jit
def row_gradient_kernel(
    logits, ids, targets, word_start, sharpness, matched, log_probs, opening, normalisers,
    grad_matched, grad_log_probs, grad_opening, grad_means, out,
    steps, size, number, chosen, HAS_MATCHED: tl.constexpr, HAS_TARGETS: tl.constexpr, HAS_STARTS: tl.constexpr,
    HAS_MEANS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A row: two softmaxes times a number each, then the single tokens written over it.

    ``out`` may be the logits, so probabilities of single tokens come from the outputs of the forward pass. A token that
    occurs several times gets the same value each time.
    """
    row = tl.program_id(0).to(tl.int64)
    pulled, own, opens = tl.zeros([], tl.float32), tl.zeros([], tl.float32), tl.zeros([], tl.float32)
    everywhere = tl.zeros([], tl.float32)
    if HAS_MATCHED:
        for first in range(0, number, COLUMNS):
            at = row * number + first + tl.arange(0, COLUMNS)
            inside = first + tl.arange(0, COLUMNS) < number
            pulled += tl.sum(tl.load(matched + at, inside, 0) * tl.load(grad_matched + at, inside, 0), 0)
    if HAS_TARGETS:
        for j in range(chosen):
            own += tl.load(grad_log_probs + row * chosen + j)
    if HAS_STARTS:
        opens = tl.load(grad_opening + row)
        pulled += opens * tl.load(opening + row)
    if HAS_MEANS:
        mean = tl.load(grad_means + row)
        own += mean
        everywhere = mean / size
    peak = tl.load(normalisers + 3 * row)
    log_plain, log_sharp = tl.load(normalisers + 3 * row + 1), tl.load(normalisers + 3 * row + 2)
    known = peak + log_plain + log_sharp
    broken = (known != known) | (tl.abs(known) == float("inf"))
    for first in range(0, size, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(logits + row * size + at, at < size, 0).to(tl.float32) - peak
        factor = -pulled + tl.zeros([BLOCK], tl.float32)
        if HAS_STARTS:
            factor += opens * tl.load(word_start + at, at < size, 0).to(tl.float32)
        found = sharpness * factor * tl.exp(sharpness * value - log_sharp) + everywhere
        found -= own * tl.exp(value - log_plain)
        tl.store(out + row * size + at, tl.where(broken, 0.0, found).to(out.dtype.element_ty), at < size)
    tl.debug_barrier()
    pieces = tl.cdiv(number, COLUMNS) if HAS_MATCHED else 0
    for piece in range(pieces + (chosen if HAS_TARGETS else 0)):
        at = piece * COLUMNS + tl.arange(0, COLUMNS)
        inside = at < tl.minimum(number, pieces * COLUMNS)
        token = tl.load(ids + (row // steps) * number + at, inside, -1)
        log_sharp_prob = tl.log(tl.maximum(tl.load(matched + row * number + at, inside, 1), 1e-38))
        log_prob = (log_sharp_prob + log_sharp) / sharpness - log_plain
        if HAS_TARGETS:
            is_target = piece >= pieces
            own_token = tl.load(targets + row * chosen + piece - pieces, is_target, -1)
            own_log_prob = tl.load(log_probs + row * chosen + piece - pieces, is_target, 0)
            token = tl.where(is_target, tl.where(tl.arange(0, COLUMNS) == 0, own_token, -1), token)
            log_prob = tl.where(is_target, own_log_prob, log_prob)
            log_sharp_prob = tl.where(is_target, sharpness * (own_log_prob + log_plain) - log_sharp, log_sharp_prob)
        inside = (token >= 0) & (token < size)
        factor = -pulled + tl.zeros([COLUMNS], tl.float32)
        if HAS_STARTS:
            factor += opens * tl.load(word_start + token, inside, 0).to(tl.float32)
        found = sharpness * factor * tl.exp(log_sharp_prob) + everywhere - own * tl.exp(log_prob)
        found += token_pull(
            token, ids, targets, sharpness, matched, grad_matched, grad_log_probs, row, steps, number, chosen,
            HAS_MATCHED, HAS_TARGETS, COLUMNS,
        )  # fmt: skip
        tl.store(out + row * size + token, tl.where(broken, 0.0, found).to(out.dtype.element_ty), inside)


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.row_probabilities`."""
    logits, ids, targets, word_start, sharpness, _ = inputs
    if not supported(logits):
        return None
    outputs = row_probabilities.shapes(*inputs)
    launch(
        row_probabilities_kernel,
        (logits.shape[0] * logits.shape[1],),
        *map(_dense, (logits, ids, targets, word_start)),
        sharpness,
        *outputs,
        *_sizes(logits, ids, targets),
        HAS_TARGETS=targets is not None,
        HAS_STARTS=word_start is not None,
        **_blocks(logits, ids),
    )
    return outputs, None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor] | None:
    """The gradient of the logits."""
    logits, ids, targets, word_start, sharpness, inplace = inputs
    if not supported(logits):
        return None
    matched, log_probs, opening, _, normalisers = outputs
    given = [None if grad is None or not grad.numel() else grad.contiguous() for grad in grads[:4]]
    logits = logits.contiguous()
    out = logits if inplace else torch.empty_like(logits)
    launch(
        row_gradient_kernel,
        (logits.shape[0] * logits.shape[1],),
        *map(_dense, (logits, ids, targets, word_start)),
        sharpness,
        *(matched, log_probs, opening, normalisers),
        *given,
        out,
        *_sizes(logits, ids, targets),
        HAS_MATCHED=given[0] is not None,
        HAS_TARGETS=given[1] is not None,
        HAS_STARTS=given[2] is not None,
        HAS_MEANS=given[3] is not None,
        **_blocks(logits, ids),
    )
    return (out,)


def _dense(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _sizes(logits: Tensor, ids: Tensor, targets: Tensor | None) -> tuple[int, ...]:
    return logits.shape[1], logits.shape[2], ids.shape[1], 0 if targets is None else targets.shape[2]


def _blocks(logits: Tensor, ids: Tensor) -> dict[str, int]:
    return {"BLOCK": lanes(logits.shape[2], most=4096), "COLUMNS": lanes(ids.shape[1], most=64)}
