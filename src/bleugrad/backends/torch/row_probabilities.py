"""Match probabilities in one pass over the logits.

The gradient of the logits is ``-s_t p[t, v]`` plus a few single tokens, s_t one number per row. So the softmax of the
forward pass, scaled in place, *is* the gradient: in float32 and float64 it is kept until then, one tensor of the
logits' size in all. Half precisions and compiled graphs work in blocks of rows and form the softmax again.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.dtypes import compute_dtype
from bleugrad.backends.operations import row_probabilities
from bleugrad.backends.torch.row_gradient import RowGradient

BLOCK_ELEMENTS = {"cpu": 2**18}
"""Logits per block of rows, which fit the cache of a CPU core. ``BLOCK_DEFAULT`` on other devices."""

BLOCK_DEFAULT = 2**26

SAFE_PROBABILITY = 1e-30
"""Below this the logarithm of a probability is computed from the logits: the rounded probability has lost digits."""


def forward(
    keep: bool, logits: Tensor, ids: Tensor, targets: Tensor | None, word_start: Tensor | None
) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.row_probabilities`."""
    if keep and logits.dtype == compute_dtype(logits):
        probs, opening = softmax_and_opening(logits, word_start)
        matched = probs.gather(2, ids[:, None, :].expand(*logits.shape[:2], -1))
        log_probs = matched.new_empty(0)
        if targets is not None:
            log_probs = log_probabilities(logits, probs.gather(2, targets), targets)
        return (matched, log_probs, opening), probs
    matched, log_probs, opening = row_probabilities.shapes(logits, ids, targets, word_start)
    for rows, probs in _softmax_blocks(logits):
        torch.index_select(probs, 1, ids[rows[0]], out=matched[rows])
        if targets is not None:
            log_probs[rows] = log_probabilities(logits[rows], probs.gather(-1, targets[rows]), targets[rows])
        if word_start is not None:
            opening[rows] = torch.mv(probs, word_start.to(probs.dtype))
    return (matched, log_probs, opening), None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the logits, in the place of the softmax if that was kept."""
    logits, ids, targets, word_start = inputs
    matched, _, opening = outputs
    row = RowGradient.of(grads, matched, opening)
    if kept is not None:
        scale_rows(kept, row, word_start)
        row.add_sparse(kept, ids, targets)
        return (kept,)
    grad = torch.empty_like(logits)
    for rows, probs in _softmax_blocks(logits):
        probs.mul_(row.factors(rows, word_start))
        part = row._replace(
            pull=row.pull[rows], own=None if row.own is None else row.own[rows], broken=row.broken[rows]
        )
        part.add_sparse(probs, ids[rows[0]], None if targets is None else targets[rows])
        grad[rows] = probs
    return (grad,)


def scale_rows(probs: Tensor, row: RowGradient, word_start: Tensor | None) -> None:
    """Multiply rows of probabilities (B, T, V) by the scales of their gradient, in place."""
    if row.opening_scale is None or word_start is None:
        probs.mul_(row.scale[..., None])
        return
    flat, rows = row.flat(), probs.view(-1, probs.shape[2])
    for block in row_blocks(probs, 4):
        rows[block].mul_(flat.factors(block, word_start))


def softmax_and_opening(logits: Tensor, word_start: Tensor | None) -> tuple[Tensor, Tensor]:
    """The softmax, and the probability (B, T) of the tokens of ``word_start`` while the rows are still in the cache."""
    if word_start is None:
        return logits.softmax(-1, dtype=compute_dtype(logits)), logits.new_empty(0, dtype=compute_dtype(logits))
    probs = torch.empty_like(logits, dtype=compute_dtype(logits), memory_format=torch.contiguous_format)
    batch, steps, vocabulary = logits.shape
    opening, starts = probs.new_empty(batch * steps), word_start.to(probs.dtype)
    flat, flat_probs = logits.reshape(-1, vocabulary), probs.view(-1, vocabulary)
    for rows in row_blocks(logits, 4):
        torch.softmax(flat[rows], -1, dtype=probs.dtype, out=flat_probs[rows])
        torch.mv(flat_probs[rows], starts, out=opening[rows])
    return probs, opening.view(batch, steps)


def row_blocks(logits: Tensor, factor: int = 1) -> Iterator[slice]:
    """Blocks of the rows of all sentences on one axis, ``factor`` times the usual size."""
    batch, steps, vocabulary = logits.shape
    height = max(1, factor * BLOCK_ELEMENTS.get(logits.device.type, BLOCK_DEFAULT) // vocabulary)
    for first in range(0, batch * steps, height):
        yield slice(first, min(first + height, batch * steps))


def _softmax_blocks(logits: Tensor) -> Iterator[tuple[tuple[int, slice], Tensor]]:
    """The softmax of a few rows of one sentence at a time: ((sentence, rows), probabilities in a reused buffer)."""
    batch, steps, vocabulary = logits.shape
    height = min(steps, max(1, BLOCK_ELEMENTS.get(logits.device.type, BLOCK_DEFAULT) // vocabulary))
    buffer = logits.new_empty(height, vocabulary, dtype=compute_dtype(logits))
    for sentence in range(batch):
        for first in range(0, steps, max(1, height)):
            rows = (sentence, slice(first, min(first + height, steps)))
            probs = buffer[: rows[1].stop - first]
            torch.softmax(logits[rows], -1, dtype=buffer.dtype, out=probs)
            yield rows, probs


def log_probabilities(logits: Tensor, picked: Tensor, tokens: Tensor) -> Tensor:
    """Logarithms of the probabilities ``picked`` (..., J) of tokens, from the logits of a row if one is too small."""
    if logits.device.type not in SYNCHRONOUS:
        wide = logits.to(picked.dtype)
        return wide.gather(-1, tokens) - wide.logsumexp(-1, keepdim=True)
    log_probs = picked.log()
    small = (picked < SAFE_PROBABILITY).any(-1)
    if small.any():
        log_probs[small] = logits[small].log_softmax(-1, dtype=picked.dtype).gather(-1, tokens[small])
    return log_probs
