"""Match probabilities: all that BLEU ever needs of a model's output distributions, in one pass over the logits.

``G[t, j] = softmax(logits[t])[y_j]``. The gradient of the logits is ``-s_t p[t, v]`` plus a sparse part at the gathered
tokens, s_t a number for each row. So the softmax of the forward pass, scaled in place, *is* the gradient: in float32
and float64 it is kept until then, one tensor of the logits' size in all. Half precisions, torch.compile and a second
backward pass work in blocks of rows instead and form the softmax again.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from bleugrad.core.native.kernels import kernels_for
from bleugrad.core.operators import outside_autocast, refuse_double_backward, save_inputs

ROW_BLOCK_ELEMENTS = {"cpu": 2**18}
"""How many logits a block of rows holds: what fits a CPU core's cache, or ``ROW_BLOCK_DEFAULT`` on other devices."""

ROW_BLOCK_DEFAULT = 2**26

SAFE_PROBABILITY = 1e-30
"""Below this a probability's logarithm is not taken of the rounded probability but from the logits."""


class Gathered(NamedTuple):
    """``match_probs`` (B, T, L); ``target_log_probs`` and ``opening`` (B, T) if asked for, else empty."""

    match_probs: Tensor
    target_log_probs: Tensor
    opening: Tensor

    def of_rows(self) -> Tensor:
        """A number made of each row, (B, T); 0 where nothing was asked for that depends on the rows."""
        for found in (self.match_probs, self.opening[..., None], self.target_log_probs[..., None]):
            if found.numel():
                return found[..., 0]
        return self.match_probs.sum(-1)


def match_probabilities(
    logits: Tensor, ids: Tensor, targets: Tensor | None = None, word_start: Tensor | None = None
) -> Gathered:
    """Probabilities of the tokens ``ids`` of each sentence at each of its positions. Exact, with an exact gradient.

    ``G[b, t, j] = exp(logits[b, t, ids[b, j]] - logsumexp(logits[b, t]))``, in float32, or float64 for float64 logits.
    The softmax subtracts each row's maximum, so nothing overflows; what underflows is 0 with zero gradient.

    Args:
        logits: (B, T, V).
        ids: (B, L), within 0..V-1.
        targets: (B, T), one more token for each position, whose log-probability is wanted (for cross-entropy).
        word_start: (V,) bool, tokens whose summed probability is wanted at each position (those that open a word).

    O(B T V) time; beyond G one tensor of the logits' size, which the backward pass returns as their gradient. Double
    backward is not supported and says so.
    """
    whole = logits.dtype in (torch.float32, torch.float64) and not torch.compiler.is_compiling()
    if whole and torch.is_grad_enabled() and logits.requires_grad:
        return Gathered(*_KeptSoftmax.apply(logits, ids, targets, word_start))  # type: ignore[no-untyped-call]
    return Gathered(*_match_probabilities(logits, ids, targets, word_start))


class _KeptSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, ids: Tensor, targets: Tensor | None, word_start: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        kept, opening = _Kept.of(logits, word_start)
        matched = kept.gather(ids[:, None, :].expand(*logits.shape[:2], -1))
        log_probs = matched.new_empty(0)
        if targets is not None:
            log_probs = _target_log_probs(logits, kept.gather(targets[..., None]).squeeze(-1), targets)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(logits, ids, targets, word_start, matched, opening)
        ctx.kept = kept  # no output among it: that would be a reference cycle, which keeps the softmax alive
        return matched, log_probs, opening

    @staticmethod
    def backward(
        ctx: Any, grad_matched: Tensor | None, grad_log_probs: Tensor | None, grad_opening: Tensor | None
    ) -> tuple[Tensor, None, None, None]:
        logits, ids, targets, word_start, matched, opening = ctx.saved_tensors
        grad_matched = torch.zeros_like(matched) if grad_matched is None else grad_matched
        kept, ctx.kept = ctx.kept, None
        if kept is None or torch.is_grad_enabled():
            grad = _match_probabilities_backward(
                grad_matched, grad_log_probs, grad_opening, logits, ids, targets, word_start
            )
            return grad, None, None, None
        with outside_autocast(logits):
            row = RowGradient.of(grad_matched, matched, grad_log_probs, grad_opening, opening)
            grad = kept.scaled(row, word_start)
            row.add_sparse(grad, ids, targets)
        return grad, None, None, None


class _Kept(NamedTuple):
    """The softmax of the rows: ``values`` (B, T, V), still to be multiplied by ``inverse`` (B, T) if there is one."""

    values: Tensor
    inverse: Tensor | None = None

    @classmethod
    def of(cls, logits: Tensor, word_start: Tensor | None) -> "tuple[_Kept, Tensor]":
        """With the probability (B, T) of a token that opens a word, empty if not asked for, in one pass."""
        kernels = kernels_for(logits) if logits.dtype == torch.float32 else None
        if kernels is None:
            values, opening = _softmax_and_opening(logits, word_start)
            return cls(values), opening
        rows = logits.shape[:2]
        values, inverse, opening = kernels.exponentials(logits.reshape(-1, logits.shape[2]), word_start)
        opening = opening if word_start is None else opening.view(rows)
        return cls(values.view(logits.shape), inverse.view(rows)), opening

    def gather(self, index: Tensor) -> Tensor:
        """Probabilities of tokens (B, T, ...)."""
        found = self.values.gather(2, index)
        return found if self.inverse is None else found.mul_(self.inverse[..., None])

    def scaled(self, row: "RowGradient", word_start: Tensor | None) -> Tensor:
        """The dense part of the gradient, in the place of the values."""
        grad = self.values
        rows = grad.view(-1, grad.shape[2])
        kernels = kernels_for(grad)
        if self.inverse is not None and kernels is not None:
            kernels.scale_rows(rows, self.inverse, row.scale, word_start, row.opening_scale)
            return grad
        row = row if self.inverse is None else row.times(self.inverse)
        if row.opening_scale is None or word_start is None:
            return grad.mul_(row.scale[..., None])
        flat = row.flat()
        for block in _flat_blocks(grad):
            rows[block].mul_(flat.factors((block,), word_start))
        return grad


class RowGradient(NamedTuple):
    """The gradient of rows of logits: p[t, v] * (scale_t + opening_scale_t * word_start_v), plus a sparse part.

    ``pull`` (..., T, L) is the gradient of the gathered log-probabilities, ``own`` (..., T) that of the targets'. Rows
    without a softmax (NaN among their logits) have passed the checks only if they do not count: they are ``broken``,
    and their gradient is 0.
    """

    scale: Tensor
    opening_scale: Tensor | None
    pull: Tensor
    own: Tensor | None
    broken: Tensor

    @classmethod
    def of(
        cls,
        grad_matched: Tensor,
        matched: Tensor,
        grad_log_probs: Tensor | None,
        grad_opening: Tensor | None,
        opening: Tensor,
    ) -> "RowGradient":
        """From the cotangents of what was gathered."""
        pull = grad_matched * matched
        total = pull.sum(-1)
        if grad_log_probs is not None:
            total = total + grad_log_probs
        if grad_opening is not None:
            total = torch.addcmul(total, grad_opening, opening)
        broken = total.isnan()
        if pull.shape[-1] == 0:  # a broken row shows nowhere; its gradient is that of a row nothing depends on
            broken = broken | (total == 0)
        return cls(-total, grad_opening, pull, grad_log_probs, broken)

    def times(self, factor: Tensor) -> "RowGradient":
        """With the scales multiplied by one number for each row."""
        opened = None if self.opening_scale is None else self.opening_scale * factor
        return self._replace(scale=self.scale * factor, opening_scale=opened)

    def flat(self) -> "RowGradient":
        """With the scales of all rows in a line, (B T,)."""
        opened = None if self.opening_scale is None else self.opening_scale.reshape(-1)
        return self._replace(scale=self.scale.reshape(-1), opening_scale=opened)

    def factors(self, rows: tuple[int, slice] | tuple[slice], word_start: Tensor) -> Tensor:
        """scale_t + opening_scale_t * word_start_v for some rows: (rows, V)."""
        scale = self.scale[rows][:, None]
        if self.opening_scale is None:
            return scale
        starts = word_start.to(scale.dtype)[None]
        return torch.addmm(scale.expand(-1, starts.shape[1]), self.opening_scale[rows][:, None], starts)

    def add_sparse(self, grad: Tensor, ids: Tensor, targets: Tensor | None) -> None:
        """Add the sparse part, and clear the broken rows: (..., T, V) in place."""
        grad.scatter_add_(-1, ids.unsqueeze(-2).expand_as(self.pull), self.pull)
        if targets is not None and self.own is not None:
            grad.scatter_add_(-1, targets[..., None], self.own[..., None])
        if self.broken.any():
            grad.masked_fill_(self.broken[..., None], 0)


@torch.library.custom_op("bleugrad::match_probabilities", mutates_args=())
def _match_probabilities(
    logits: Tensor, ids: Tensor, targets: Optional[Tensor], word_start: Optional[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    batch, steps, _ = logits.shape
    matched = logits.new_empty(batch, steps, ids.shape[1], dtype=compute_dtype(logits))
    log_probs = matched.new_empty(0 if targets is None else (batch, steps))
    opening = matched.new_empty(0 if word_start is None else (batch, steps))
    for rows, probs in _softmax_blocks(logits):
        torch.index_select(probs, 1, ids[rows[0]], out=matched[rows])
        if targets is not None:
            picked = probs.gather(-1, targets[rows][..., None]).squeeze(-1)
            log_probs[rows] = _target_log_probs(logits[rows], picked, targets[rows])
        if word_start is not None:
            opening[rows] = torch.mv(probs, word_start.to(probs.dtype))
    return matched, log_probs, opening


@torch.library.custom_op("bleugrad::match_probabilities_backward", mutates_args=())
def _match_probabilities_backward(
    grad_matched: Tensor,
    grad_log_probs: Optional[Tensor],
    grad_opening: Optional[Tensor],
    logits: Tensor,
    ids: Tensor,
    targets: Optional[Tensor],
    word_start: Optional[Tensor],
) -> Tensor:
    grad = torch.empty_like(logits)
    whole = (slice(None),)
    for rows, probs in _softmax_blocks(logits):
        opening = probs.new_empty(0) if word_start is None else torch.mv(probs, word_start.to(probs.dtype))
        row = RowGradient.of(
            grad_matched[rows],
            probs[:, ids[rows[0]]],
            None if grad_log_probs is None else grad_log_probs[rows],
            None if grad_opening is None else grad_opening[rows],
            opening,
        )
        probs.mul_(row.scale[:, None] if word_start is None else row.factors(whole, word_start))
        row.add_sparse(probs, ids[rows[0]], None if targets is None else targets[rows])
        grad[rows] = probs
    return grad


@_match_probabilities.register_fake
def _(
    logits: Tensor, ids: Tensor, targets: Optional[Tensor], word_start: Optional[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    matched = logits.new_empty(*logits.shape[:2], ids.shape[1], dtype=compute_dtype(logits))
    rows = logits.shape[:2]
    return (
        matched,
        matched.new_empty(0 if targets is None else rows),
        matched.new_empty(0 if word_start is None else rows),
    )


@_match_probabilities_backward.register_fake
def _(
    grad_matched: Tensor,
    grad_log_probs: Optional[Tensor],
    grad_opening: Optional[Tensor],
    logits: Tensor,
    ids: Tensor,
    targets: Optional[Tensor],
    word_start: Optional[Tensor],
) -> Tensor:
    return torch.empty_like(logits)


def _save_for_backward(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.set_materialize_grads(False)
    save_inputs(ctx, inputs, output)


def _backward(ctx, grad_matched, grad_log_probs, grad_opening):  # type: ignore[no-untyped-def]
    saved = ctx.saved_tensors
    logits, ids, targets, word_start = saved
    if grad_matched is None:
        grad_matched = logits.new_zeros(*logits.shape[:2], ids.shape[1], dtype=compute_dtype(logits))
    own = grad_log_probs if targets is not None else None
    opened = grad_opening if word_start is not None else None
    with outside_autocast(logits):
        return _match_probabilities_backward(grad_matched, own, opened, *saved), None, None, None


_match_probabilities.register_autograd(_backward, setup_context=_save_for_backward)
refuse_double_backward(_match_probabilities_backward)


def compute_dtype(logits: Tensor) -> torch.dtype:
    """The type probabilities are computed in."""
    return logits.dtype if logits.dtype == torch.float64 else torch.float32


def _softmax_and_opening(logits: Tensor, word_start: Tensor | None) -> tuple[Tensor, Tensor]:
    """The softmax, and the probability of a token that opens a word while the rows are still in the cache."""
    if word_start is None:
        return logits.softmax(-1), logits.new_empty(0)
    batch, steps, vocabulary = logits.shape
    probs = torch.empty_like(logits, memory_format=torch.contiguous_format)
    opening, starts = logits.new_empty(batch * steps), word_start.to(logits.dtype)
    flat, flat_probs = logits.reshape(-1, vocabulary), probs.view(-1, vocabulary)
    for rows in _flat_blocks(logits):
        torch.softmax(flat[rows], -1, out=flat_probs[rows])
        torch.mv(flat_probs[rows], starts, out=opening[rows])
    return probs, opening.view(batch, steps)


def _flat_blocks(logits: Tensor) -> Iterator[slice]:
    """Blocks of the rows of all sentences in a line; four times as large, since each row is read but once more."""
    batch, steps, vocabulary = logits.shape
    height = max(1, 4 * ROW_BLOCK_ELEMENTS.get(logits.device.type, ROW_BLOCK_DEFAULT) // vocabulary)
    for first in range(0, batch * steps, height):
        yield slice(first, min(first + height, batch * steps))


def _row_blocks(shape: torch.Size, device: torch.device) -> Iterator[tuple[int, slice]]:
    """A few rows of one sentence at a time, as (sentence, rows)."""
    batch, steps, vocabulary = shape
    height = max(1, ROW_BLOCK_ELEMENTS.get(device.type, ROW_BLOCK_DEFAULT) // vocabulary)
    for sentence in range(batch):
        for first in range(0, steps, height):
            yield sentence, slice(first, min(first + height, steps))


def _softmax_blocks(logits: Tensor) -> Iterator[tuple[tuple[int, slice], Tensor]]:
    """The softmax of a few rows at a time: (rows, probabilities in a buffer used again)."""
    dtype, buffer = compute_dtype(logits), None
    for rows in _row_blocks(logits.shape, logits.device):
        height = rows[1].stop - rows[1].start
        if buffer is None:
            buffer = logits.new_empty(height, logits.shape[2], dtype=dtype)
        probs = buffer[:height]
        torch.softmax(logits[rows], -1, dtype=dtype, out=probs)
        yield rows, probs


def _target_log_probs(logits: Tensor, picked: Tensor, targets: Tensor) -> Tensor:
    """log p of one token a row: from its probability, or from the logits of the row where that is too small."""
    log_probs = picked.log()
    small = picked < SAFE_PROBABILITY
    if small.any():
        rows = torch.log_softmax(logits[small], -1, dtype=picked.dtype)
        log_probs[small] = rows.gather(-1, targets[small][..., None]).squeeze(-1)
    return log_probs
