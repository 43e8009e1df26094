"""Match probabilities from hidden states and the output projection, never holding the logits of the whole batch.

Cross-entropy knows a row's gradient as soon as it has the row's logits. BLEU does not: it needs the match probabilities
of all rows first. But the gradient of a row of logits is ``-s_t p[t]`` plus a sparse part, s_t a number, so the
gradient of its hidden state is ``-s_t (p[t] @ weight)`` plus a few rows of the weight. ``p @ weight`` is formed in the
forward pass, while the probabilities of a chunk are at hand; only the weight's own gradient needs them again. That is
four products of the size of the projection, or two when the projection is frozen.
"""

from collections.abc import Iterator
from typing import Optional

import torch
from torch import Tensor

from bleugrad.core.match_probabilities import Gathered, RowGradient, compute_dtype
from bleugrad.core.operators import outside_autocast, refuse_double_backward

LEAST_ROWS = 64
"""Rows of a chunk, unless the hidden states of the batch are larger than a chunk's logits then are."""


def linear_match_probabilities(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    ids: Tensor,
    targets: Tensor | None = None,
    word_start: Tensor | None = None,
) -> Gathered:
    """Match probabilities of ``logits = hidden @ weight.T + bias``, in chunks of rows. Exact.

    What :func:`bleugrad.core.match_probabilities.match_probabilities` gives for these logits.

    Args:
        hidden: (B, T, H).
        weight: (V, H).
        bias: (V,), or None.
        ids: (B, L), within 0..V-1.
        targets: (B, T), one more token for each position, whose log-probability is wanted.
        word_start: (V,) bool, tokens whose summed probability is wanted at each position.

    O(B T V H) time. Beyond the inputs' gradients, memory for one chunk of logits, no larger than the hidden states or
    64 rows, and one more tensor of the hidden states' size. With ``word_start`` the gradient of the hidden states needs
    the probabilities again as well, so a frozen projection costs three products instead of two.
    """
    mean_weight = torch.is_grad_enabled() and hidden.requires_grad and word_start is None
    outputs = _linear_match_probabilities(hidden, weight, bias, ids, targets, word_start, mean_weight)
    return Gathered(*outputs[:3])


@torch.library.custom_op("bleugrad::linear_match_probabilities", mutates_args=())
def _linear_match_probabilities(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    ids: Tensor,
    targets: Optional[Tensor],
    word_start: Optional[Tensor],
    mean_weight: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    batch, steps, width = hidden.shape
    rows, dtype = batch * steps, compute_dtype(hidden)
    matched = hidden.new_empty(rows, ids.shape[1], dtype=dtype)
    log_probs = matched.new_empty(0 if targets is None else rows)
    opening = matched.new_empty(0 if word_start is None else rows)
    expected_weight = matched.new_empty(rows if mean_weight else 0, width)
    log_normaliser = matched.new_empty(rows)
    sentence = torch.arange(batch, device=hidden.device).repeat_interleave(steps)
    for part, logits in _logit_chunks(hidden, weight, bias):
        peak = logits.amax(1, keepdim=True)
        if targets is not None:
            log_probs[part] = logits.gather(1, targets.reshape(-1)[part, None]).squeeze(1)
        exponentials = logits.sub_(peak).exp_()
        normaliser = exponentials.sum(1, keepdim=True)
        log_normaliser[part] = (peak + normaliser.log()).squeeze(1)
        matched[part] = exponentials.gather(1, ids[sentence[part]]) / normaliser
        if word_start is not None:
            opening[part] = torch.mv(exponentials, word_start.to(dtype)) / normaliser.squeeze(1)
        if mean_weight:
            expected_weight[part] = torch.mm(exponentials.to(weight.dtype), weight).to(dtype) / normaliser
    if targets is not None:
        log_probs -= log_normaliser
    return (
        matched.view(batch, steps, ids.shape[1]),
        log_probs if targets is None else log_probs.view(batch, steps),
        opening if word_start is None else opening.view(batch, steps),
        expected_weight,
        log_normaliser,
    )


@torch.library.custom_op("bleugrad::linear_match_probabilities_backward", mutates_args=())
def _linear_match_probabilities_backward(
    grad_matched: Tensor,
    grad_log_probs: Optional[Tensor],
    grad_opening: Optional[Tensor],
    matched: Tensor,
    opening: Tensor,
    expected_weight: Tensor,
    log_normaliser: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    ids: Tensor,
    targets: Optional[Tensor],
    word_start: Optional[Tensor],
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    row = RowGradient.of(grad_matched, matched, grad_log_probs, grad_opening, opening)
    row = row.flat()
    broken = row.broken.view(-1, 1)
    grad_hidden, grad_weight, grad_bias = hidden.new_empty(0), weight.new_empty(0), weight.new_empty(0)
    known = expected_weight.shape[0] > 0
    if needs[1] or needs[2] or (needs[0] and not known):
        again = [needs[0] and not known, needs[1], needs[2]]
        grad_hidden, grad_weight, grad_bias = _dense_gradient(
            hidden, weight, bias, log_normaliser, row, word_start, again
        )
    if needs[0] and known:
        grad_hidden = expected_weight * row.scale[:, None]
    sparse = _SparseGradient(row, ids, targets)
    if needs[0]:
        grad_hidden = sparse.add_to_hidden(torch.where(broken, 0, grad_hidden), weight)
        grad_hidden = grad_hidden.to(hidden.dtype).view(hidden.shape)
    if needs[1] or needs[2]:
        grad_weight, grad_bias = sparse.add_to_projection(grad_weight, grad_bias, hidden)
    return grad_hidden, grad_weight.to(weight.dtype), grad_bias.to(weight.dtype)


@_linear_match_probabilities.register_fake
def _(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    ids: Tensor,
    targets: Optional[Tensor],
    word_start: Optional[Tensor],
    mean_weight: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    batch, steps, width = hidden.shape
    matched = hidden.new_empty(batch, steps, ids.shape[1], dtype=compute_dtype(hidden))
    return (
        matched,
        matched.new_empty(0 if targets is None else (batch, steps)),
        matched.new_empty(0 if word_start is None else (batch, steps)),
        matched.new_empty(batch * steps if mean_weight else 0, width),
        matched.new_empty(batch * steps),
    )


@_linear_match_probabilities_backward.register_fake
def _(
    grad_matched: Tensor,
    grad_log_probs: Optional[Tensor],
    grad_opening: Optional[Tensor],
    matched: Tensor,
    opening: Tensor,
    expected_weight: Tensor,
    log_normaliser: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    ids: Tensor,
    targets: Optional[Tensor],
    word_start: Optional[Tensor],
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.empty_like(hidden) if needs[0] else hidden.new_empty(0),
        torch.empty_like(weight) if needs[1] else weight.new_empty(0),
        weight.new_empty(weight.shape[0] if needs[2] else 0),
    )


def _save_for_backward(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    matched, _, opening, expected_weight, log_normaliser = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(matched, opening, expected_weight, log_normaliser, *inputs[:-1])


def _backward(ctx, grad_matched, grad_log_probs, grad_opening, _grad_expected_weight, _grad_log_normaliser):  # type: ignore[no-untyped-def]
    saved = ctx.saved_tensors
    matched, *_, targets, word_start = saved
    needs = list(ctx.needs_input_grad[:3])
    with outside_autocast(matched):
        grads = _linear_match_probabilities_backward(
            torch.zeros_like(matched) if grad_matched is None else grad_matched,
            grad_log_probs if targets is not None else None,
            grad_opening if word_start is not None else None,
            *saved,
            needs,
        )
    kept = [grad if needed else None for grad, needed in zip(grads, needs, strict=True)]
    return *kept, None, None, None, None


_linear_match_probabilities.register_autograd(_backward, setup_context=_save_for_backward)
refuse_double_backward(_linear_match_probabilities_backward)


class _SparseGradient:
    """The part of the logits' gradient at single tokens."""

    def __init__(self, row: RowGradient, ids: Tensor, targets: Tensor | None) -> None:
        self.ids, self.broken = ids, row.broken
        self.pull = torch.where(row.broken[..., None], 0, row.pull)
        self.own = None if row.own is None else torch.where(row.broken, 0, row.own).view(-1)
        self.targets = None if targets is None else targets.reshape(-1)

    def add_to_hidden(self, grad: Tensor, weight: Tensor) -> Tensor:
        """Add it times the weight to the gradient (B T, H) of the hidden states."""
        batch, steps, _ = self.pull.shape
        grad.view(batch, steps, weight.shape[1]).baddbmm_(self.pull, weight[self.ids].to(grad.dtype))
        if self.own is not None and self.targets is not None:
            grad.addcmul_(self.own[:, None], weight[self.targets].to(grad.dtype))
        return grad

    def add_to_projection(self, grad_weight: Tensor, grad_bias: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Add it to the gradients of weight and bias, those of them that are not empty."""
        columns = self.ids.reshape(-1)
        if grad_weight.numel():
            states = torch.where(self.broken[..., None], 0, hidden.to(grad_weight.dtype))
            grad_weight.index_add_(0, columns, torch.bmm(self.pull.transpose(1, 2), states).flatten(0, 1))
            if self.own is not None and self.targets is not None:
                grad_weight.index_add_(0, self.targets, states.flatten(0, 1) * self.own[:, None])
        if grad_bias.numel():
            grad_bias.index_add_(0, columns, self.pull.sum(1).view(-1))
            if self.own is not None and self.targets is not None:
                grad_bias.index_add_(0, self.targets, self.own)
        return grad_weight, grad_bias


def _dense_gradient(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    log_normaliser: Tensor,
    row: RowGradient,
    word_start: Tensor | None,
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    """What the dense part of the logits' gradient gives hidden states (B T, H), weight and bias, or empty tensors."""
    dtype = compute_dtype(hidden)
    states = hidden.reshape(-1, hidden.shape[2])
    grad_hidden = hidden.new_zeros(states.shape if needs[0] else 0, dtype=dtype)
    grad_weight = hidden.new_zeros(weight.shape if needs[1] else 0, dtype=dtype)
    grad_bias = hidden.new_zeros(weight.shape[0] if needs[2] else 0, dtype=dtype)
    broken = row.broken.view(-1)
    for part, logits in _logit_chunks(hidden, weight, bias):
        grad_logits = logits.sub_(log_normaliser[part, None]).exp_()
        if word_start is None:
            grad_logits *= row.scale[part, None]
        else:
            grad_logits *= row.factors((part,), word_start)
        if broken[part].any():
            grad_logits.masked_fill_(broken[part, None], 0)
        if needs[0]:
            grad_hidden[part] = torch.mm(grad_logits.to(weight.dtype), weight).to(dtype)
        if needs[1]:
            grad_weight.addmm_(grad_logits.t(), torch.where(broken[part, None], 0, states[part]).to(dtype))
        if needs[2]:
            grad_bias += grad_logits.sum(0)
    return grad_hidden, grad_weight, grad_bias


def _logit_chunks(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """Rows and their logits (rows, V), in a buffer used again; the caller may overwrite it."""
    states = hidden.reshape(-1, hidden.shape[2])
    rows, vocabulary = states.shape[0], weight.shape[0]
    height = min(rows, max(LEAST_ROWS, states.numel() // max(1, vocabulary)))
    dtype = compute_dtype(hidden)
    buffer = hidden.new_empty(height, vocabulary, dtype=weight.dtype)
    for first in range(0, rows, max(1, height)):
        part = slice(first, min(first + height, rows))
        logits = torch.mm(states[part].to(weight.dtype), weight.t(), out=buffer[: part.stop - first])
        if bias is not None:
            logits += bias
        yield part, logits.to(dtype)
