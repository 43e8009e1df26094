"""Match probabilities: all that BLEU ever needs of a model's output distributions, in one pass over the logits.

``G[t, j] = softmax(logits[t])[y_j]``. The gradient of the logits is ``-s_t p[t, v]`` plus a sparse part at the gathered
tokens, s_t a number for each row. So the softmax of the forward pass, scaled in place, *is* the gradient: in float32
and float64 it is kept until then, one tensor of the logits' size in all. Half precisions, torch.compile and a second
backward pass work in blocks of rows instead and form the softmax again.
"""

from collections.abc import Iterator
from typing import Any, Optional, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

ROW_BLOCK_ELEMENTS = {"cpu": 2**18}
"""How many logits a block of rows holds: what fits a CPU core's cache, or ``ROW_BLOCK_DEFAULT`` on other devices."""

ROW_BLOCK_DEFAULT = 2**26

SAFE_PROBABILITY = 1e-30
"""Below this a probability's logarithm is not taken of the rounded probability but from the logits."""


def match_probabilities(logits: Tensor, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Probabilities of the tokens ``ids`` of each sentence at each of its positions. Exact, with an exact gradient.

    ``G[b, t, j] = exp(logits[b, t, ids[b, j]] - logsumexp(logits[b, t]))``, in float32, or float64 for float64 logits.
    The softmax subtracts each row's maximum, so nothing overflows; what underflows is 0 with zero gradient.

    Args:
        logits: (B, T, V).
        ids: (B, L), within 0..V-1.
        targets: (B, T), one more token for each position, whose log-probability is wanted (for cross-entropy).

    Returns:
        G, (B, T, L), and the log-probabilities of ``targets``, (B, T), or an empty tensor.

    O(B T V) time; beyond G one tensor of the logits' size, which the backward pass returns as their gradient. Double
    backward is not supported and says so.
    """
    whole = logits.dtype in (torch.float32, torch.float64) and not torch.compiler.is_compiling()
    if whole and torch.is_grad_enabled() and logits.requires_grad:
        gathered = _KeptSoftmax.apply(logits, ids, targets)  # type: ignore[no-untyped-call]
    else:
        gathered = _match_probabilities(logits, ids, targets)
    return cast(tuple[Tensor, Tensor], gathered)


class _KeptSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, ids: Tensor, targets: Tensor | None) -> tuple[Tensor, Tensor]:
        probs = logits.softmax(-1)
        matched = probs.gather(2, ids[:, None, :].expand(*logits.shape[:2], -1))
        log_probs = matched.new_empty(0) if targets is None else _target_log_probs(logits, probs, targets)
        ctx.save_for_backward(logits, ids, targets, matched)
        ctx.probs = probs
        return matched, log_probs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_matched: Tensor, grad_log_probs: Tensor) -> tuple[Tensor, None, None]:
        logits, ids, targets, matched = ctx.saved_tensors
        grad, ctx.probs = ctx.probs, None
        if grad is None:
            return _match_probabilities_backward(grad_matched, grad_log_probs, logits, ids, targets), None, None
        _scale_and_scatter(grad, grad_matched, matched, grad_log_probs, ids, targets)
        return grad, None, None


@torch.library.custom_op("bleugrad::match_probabilities", mutates_args=())
def _match_probabilities(logits: Tensor, ids: Tensor, targets: Optional[Tensor]) -> tuple[Tensor, Tensor]:
    batch, steps, _ = logits.shape
    matched = logits.new_empty(batch, steps, ids.shape[1], dtype=_compute_dtype(logits))
    log_probs = matched.new_empty(0 if targets is None else (batch, steps))
    for sentence, rows, probs in _softmax_blocks(logits):
        torch.index_select(probs, 1, ids[sentence], out=matched[sentence, rows])
        if targets is not None:
            log_probs[sentence, rows] = _target_log_probs(logits[sentence, rows], probs, targets[sentence, rows])
    return matched, log_probs


@torch.library.custom_op("bleugrad::match_probabilities_backward", mutates_args=())
def _match_probabilities_backward(
    grad_matched: Tensor, grad_log_probs: Tensor, logits: Tensor, ids: Tensor, targets: Optional[Tensor]
) -> Tensor:
    grad = torch.empty_like(logits)
    for sentence, rows, probs in _softmax_blocks(logits):
        matched = probs[:, ids[sentence]]
        own = None if targets is None else targets[sentence, rows]
        grad_own = grad_log_probs if targets is None else grad_log_probs[sentence, rows]
        _scale_and_scatter(probs, grad_matched[sentence, rows], matched, grad_own, ids[sentence], own)
        grad[sentence, rows] = probs
    return grad


@_match_probabilities.register_fake
def _(logits: Tensor, ids: Tensor, targets: Optional[Tensor]) -> tuple[Tensor, Tensor]:
    matched = logits.new_empty(*logits.shape[:2], ids.shape[1], dtype=_compute_dtype(logits))
    return matched, matched.new_empty(0 if targets is None else logits.shape[:2])


@_match_probabilities_backward.register_fake
def _(grad_matched: Tensor, grad_log_probs: Tensor, logits: Tensor, ids: Tensor, targets: Optional[Tensor]) -> Tensor:
    return torch.empty_like(logits)


def _save_for_backward(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad_matched, grad_log_probs):  # type: ignore[no-untyped-def]
    return _match_probabilities_backward(grad_matched, grad_log_probs, *ctx.saved_tensors), None, None


_match_probabilities.register_autograd(_backward, setup_context=_save_for_backward)


def _compute_dtype(logits: Tensor) -> torch.dtype:
    return logits.dtype if logits.dtype == torch.float64 else torch.float32


def _softmax_blocks(logits: Tensor) -> Iterator[tuple[int, slice, Tensor]]:
    """The softmax of a few rows of one sentence at a time: (sentence, rows, probabilities in a buffer used again)."""
    batch, steps, vocabulary = logits.shape
    height = max(1, ROW_BLOCK_ELEMENTS.get(logits.device.type, ROW_BLOCK_DEFAULT) // vocabulary)
    dtype = _compute_dtype(logits)
    buffer = logits.new_empty(min(height, steps), vocabulary, dtype=dtype)
    for sentence in range(batch):
        for first in range(0, steps, height):
            rows = slice(first, min(first + height, steps))
            probs = buffer[: rows.stop - first]
            torch.softmax(logits[sentence, rows], -1, dtype=dtype, out=probs)
            yield sentence, rows, probs


def _target_log_probs(logits: Tensor, probs: Tensor, targets: Tensor) -> Tensor:
    """log p of one token a row: from the probability, or from the logits of the row where that is too small."""
    picked = probs.gather(-1, targets[..., None]).squeeze(-1)
    log_probs = picked.log()
    small = picked < SAFE_PROBABILITY
    if small.any():
        rows = torch.log_softmax(logits[small], -1, dtype=probs.dtype)
        log_probs[small] = rows.gather(-1, targets[small][..., None]).squeeze(-1)
    return log_probs


def _scale_and_scatter(
    probs: Tensor, grad_matched: Tensor, matched: Tensor, grad_log_probs: Tensor, ids: Tensor, targets: Tensor | None
) -> None:
    """Turn the softmax (..., T, V) into the gradient of the logits, in place.

    A row without a softmax (NaN among its logits) has passed the checks only if it does not count: its gradient is 0.
    """
    pull = grad_matched * matched  # the gradient of the gathered log-probabilities
    total = pull.sum(-1, keepdim=True)
    if targets is not None:
        total = total + grad_log_probs[..., None]
    probs.mul_(-total)
    probs.scatter_add_(-1, ids.unsqueeze(-2).expand_as(pull), pull)
    if targets is not None:
        probs.scatter_add_(-1, targets[..., None], grad_log_probs[..., None])
    broken = total.isnan()
    if broken.any():
        probs.masked_fill_(broken, 0)
