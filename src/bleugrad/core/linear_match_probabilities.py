"""Match probabilities from hidden states and the output projection, never holding the logits of the whole batch.

Cross-entropy knows a row's gradient as soon as it has the row's logits. BLEU does not: it needs the match probabilities
of all rows first. But the gradient of a row of logits is ``-s_t p[t]`` plus a sparse part, s_t a number, so the
gradient of its hidden state is ``-s_t (p[t] @ weight)`` plus a few rows of the weight. ``p @ weight`` is formed in the
forward pass, while the probabilities of a chunk are at hand; only the weight's own gradient needs them again. That is
four products of the size of the projection, or two when the projection is frozen.
"""

from collections.abc import Iterator
from typing import Optional, cast

import torch
from torch import Tensor

LEAST_ROWS = 64
"""Rows of a chunk, unless the hidden states of the batch are larger than a chunk's logits then are."""


def linear_match_probabilities(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, ids: Tensor, targets: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What :func:`match_probabilities` gives for ``logits = hidden @ weight.T + bias``, in chunks of rows. Exact.

    Args:
        hidden: (B, T, H).
        weight: (V, H).
        bias: (V,), or None.
        ids: (B, L), within 0..V-1.
        targets: (B, T), one more token for each position, whose log-probability is wanted.

    Returns:
        The probabilities (B, T, L), and the log-probabilities of ``targets``, (B, T), or an empty tensor.

    O(B T V H) time. Beyond the inputs' gradients, memory for one chunk of logits, no larger than the hidden states or
    64 rows, and one more tensor of the hidden states' size.
    """
    needs_grad = torch.is_grad_enabled() and hidden.requires_grad
    outputs = _linear_match_probabilities(hidden, weight, bias, ids, targets, needs_grad)
    matched, log_probs, _, _ = cast(tuple[Tensor, Tensor, Tensor, Tensor], outputs)
    return matched, log_probs


@torch.library.custom_op("bleugrad::linear_match_probabilities", mutates_args=())
def _linear_match_probabilities(
    hidden: Tensor, weight: Tensor, bias: Optional[Tensor], ids: Tensor, targets: Optional[Tensor], mean_weight: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch, steps, width = hidden.shape
    rows, dtype = batch * steps, _compute_dtype(hidden)
    matched = hidden.new_empty(rows, ids.shape[1], dtype=dtype)
    log_probs = hidden.new_empty(0 if targets is None else rows, dtype=dtype)
    expected_weight = hidden.new_empty(rows if mean_weight else 0, width, dtype=dtype)
    log_normaliser = hidden.new_empty(rows, dtype=dtype)
    sentence = torch.arange(batch, device=hidden.device).repeat_interleave(steps)
    for part, logits in _logit_chunks(hidden, weight, bias):
        peak = logits.amax(1, keepdim=True)
        if targets is not None:
            picked = logits.gather(1, targets.reshape(-1)[part, None])
        exponentials = logits.sub_(peak).exp_()
        normaliser = exponentials.sum(1, keepdim=True)
        log_normaliser[part] = (peak + normaliser.log()).squeeze(1)
        matched[part] = exponentials.gather(1, ids[sentence[part]]) / normaliser
        if targets is not None:
            log_probs[part] = picked.squeeze(1) - log_normaliser[part]
        if mean_weight:
            expected_weight[part] = torch.mm(exponentials.to(weight.dtype), weight).to(dtype) / normaliser
    return (
        matched.view(batch, steps, -1),
        log_probs if targets is None else log_probs.view(batch, steps),
        expected_weight,
        log_normaliser,
    )


@torch.library.custom_op("bleugrad::linear_match_probabilities_backward", mutates_args=())
def _linear_match_probabilities_backward(
    grad_matched: Tensor,
    grad_log_probs: Optional[Tensor],
    matched: Tensor,
    expected_weight: Tensor,
    log_normaliser: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    ids: Tensor,
    targets: Optional[Tensor],
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    pull = grad_matched * matched  # the gradient of the gathered log-probabilities, (B, T, L)
    broken = pull.sum(-1).isnan()  # rows without a softmax, which do not count
    pull = torch.where(broken[..., None], 0, pull)
    total, own = pull.sum(-1).view(-1), None
    if targets is not None and grad_log_probs is not None:
        own = torch.where(broken, 0, grad_log_probs).view(-1)
        total = total + own
    sparse = _SparseGradient(pull, ids, own, targets)
    grad_hidden, grad_weight, grad_bias = hidden.new_empty(0), weight.new_empty(0), weight.new_empty(0)
    if needs[0]:
        dense = torch.where(broken.view(-1, 1), 0, expected_weight * -total[:, None])
        grad_hidden = sparse.add_to_hidden(dense, weight).to(hidden.dtype).view(hidden.shape)
    if needs[1] or needs[2]:
        scale = torch.where(broken.view(-1), 0, -total)
        grad_weight, grad_bias = _dense_projection_gradient(hidden, weight, bias, log_normaliser, scale, needs)
        grad_weight, grad_bias = sparse.add_to_projection(grad_weight, grad_bias, hidden)
        grad_weight, grad_bias = grad_weight.to(weight.dtype), grad_bias.to(weight.dtype)
    return grad_hidden, grad_weight, grad_bias


@_linear_match_probabilities.register_fake
def _(
    hidden: Tensor, weight: Tensor, bias: Optional[Tensor], ids: Tensor, targets: Optional[Tensor], mean_weight: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch, steps, width = hidden.shape
    rows, dtype = batch * steps, _compute_dtype(hidden)
    return (
        hidden.new_empty(batch, steps, ids.shape[1], dtype=dtype),
        hidden.new_empty(0 if targets is None else (batch, steps), dtype=dtype),
        hidden.new_empty(rows if mean_weight else 0, width, dtype=dtype),
        hidden.new_empty(rows, dtype=dtype),
    )


@_linear_match_probabilities_backward.register_fake
def _(
    grad_matched: Tensor,
    grad_log_probs: Optional[Tensor],
    matched: Tensor,
    expected_weight: Tensor,
    log_normaliser: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    ids: Tensor,
    targets: Optional[Tensor],
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.empty_like(hidden) if needs[0] else hidden.new_empty(0),
        torch.empty_like(weight) if needs[1] else weight.new_empty(0),
        weight.new_empty(weight.shape[0] if needs[2] else 0),
    )


def _save_for_backward(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    hidden, weight, bias, ids, targets, _ = inputs
    matched, _, expected_weight, log_normaliser = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(matched, expected_weight, log_normaliser, hidden, weight, bias, ids, targets)


def _backward(ctx, grad_matched, grad_log_probs, _grad_expected_weight, _grad_log_normaliser):  # type: ignore[no-untyped-def]
    matched = ctx.saved_tensors[0]
    if grad_matched is None:
        grad_matched = torch.zeros_like(matched)
    needs = list(ctx.needs_input_grad[:3])
    grads = _linear_match_probabilities_backward(grad_matched, grad_log_probs, *ctx.saved_tensors, needs)
    kept = [grad if needed else None for grad, needed in zip(grads, needs, strict=True)]
    return *kept, None, None, None


_linear_match_probabilities.register_autograd(_backward, setup_context=_save_for_backward)


class _SparseGradient:
    """The part of the logits' gradient at single tokens: ``pull`` (B, T, L) at ``ids``, ``own`` at ``targets``."""

    def __init__(self, pull: Tensor, ids: Tensor, own: Tensor | None, targets: Tensor | None) -> None:
        self.pull, self.ids, self.own = pull, ids, own
        self.targets = None if targets is None else targets.reshape(-1)

    def add_to_hidden(self, grad: Tensor, weight: Tensor) -> Tensor:
        """Add it times the weight to the gradient (B T, H) of the hidden states."""
        batch, steps, _ = self.pull.shape
        grad.view(batch, steps, -1).baddbmm_(self.pull, weight[self.ids].to(grad.dtype))
        if self.own is not None and self.targets is not None:
            grad.addcmul_(self.own[:, None], weight[self.targets].to(grad.dtype))
        return grad

    def add_to_projection(self, grad_weight: Tensor, grad_bias: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Add it to the gradients of weight and bias, those of them that are not empty."""
        columns = self.ids.reshape(-1)
        if grad_weight.numel():
            states = hidden.to(grad_weight.dtype)
            grad_weight.index_add_(0, columns, torch.bmm(self.pull.transpose(1, 2), states).flatten(0, 1))
            if self.own is not None and self.targets is not None:
                grad_weight.index_add_(0, self.targets, states.flatten(0, 1) * self.own[:, None])
        if grad_bias.numel():
            grad_bias.index_add_(0, columns, self.pull.sum(1).view(-1))
            if self.own is not None and self.targets is not None:
                grad_bias.index_add_(0, self.targets, self.own)
        return grad_weight, grad_bias


def _dense_projection_gradient(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, log_normaliser: Tensor, scale: Tensor, needs: list[bool]
) -> tuple[Tensor, Tensor]:
    """sum_t scale_t p[t] h_t^T and sum_t scale_t p[t]; rows of scale 0 are left out, also where p is NaN."""
    dtype = _compute_dtype(hidden)
    grad_weight = hidden.new_zeros(weight.shape if needs[1] else 0, dtype=dtype)
    grad_bias = hidden.new_zeros(weight.shape[0] if needs[2] else 0, dtype=dtype)
    states = hidden.reshape(-1, hidden.shape[2])
    for part, logits in _logit_chunks(hidden, weight, bias):
        probs = logits.sub_(log_normaliser[part, None]).exp_()
        unused = (scale[part] == 0)[:, None]
        if not log_normaliser[part].isfinite().all():
            probs.masked_fill_(unused, 0)
        if needs[1]:
            grad_weight.addmm_(probs.t(), torch.where(unused, 0, states[part].to(dtype) * scale[part, None]))
        if needs[2]:
            grad_bias.addmv_(probs.t(), scale[part])
    return grad_weight, grad_bias


def _compute_dtype(hidden: Tensor) -> torch.dtype:
    return hidden.dtype if hidden.dtype == torch.float64 else torch.float32


def _logit_chunks(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """Rows and their logits (rows, V), in a buffer used again; the caller may overwrite it."""
    states = hidden.reshape(-1, hidden.shape[2])
    rows, vocabulary = states.shape[0], weight.shape[0]
    height = min(rows, max(LEAST_ROWS, states.numel() // max(1, vocabulary)))
    dtype = _compute_dtype(hidden)
    buffer = hidden.new_empty(height, vocabulary, dtype=weight.dtype)
    for first in range(0, rows, max(1, height)):
        part = slice(first, min(first + height, rows))
        logits = torch.mm(states[part].to(weight.dtype), weight.t(), out=buffer[: part.stop - first])
        if bias is not None:
            logits += bias
        yield part, logits.to(dtype)
