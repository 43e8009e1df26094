"""Match probabilities from hidden states and the output projection; the logits of the whole batch never exist.

Cross-entropy knows the gradient of a row as soon as it has the row's logits. BLEU does not: it needs the match
probabilities of all rows first. But the gradient of a row of logits is ``-s_t p[t]`` plus a few single tokens, s_t one
number, so the gradient of its hidden state is ``-s_t (p[t] @ weight)`` plus a few rows of the weight. ``p @ weight`` is
formed in the forward pass, while the probabilities of a chunk are at hand; only the weight's own gradient needs them
again. That is four products of the size of the projection, or two when the projection is frozen. With a half-precision
weight all of them have half-precision factors; sums over chunks are in float32.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.dtypes import compute_dtype
from bleugrad.backends.operations import projected_probabilities
from bleugrad.backends.torch.row_gradient import RowGradient

LEAST_ROWS = 64
"""Rows per chunk, unless the hidden states of the batch are larger than the logits of such a chunk."""


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.projected_probabilities`."""
    hidden, weight, bias, ids, targets, word_start, mean_weight = inputs
    outputs = projected_probabilities.shapes(*inputs)
    matched, log_probs, opening, expected_weight, log_normaliser = outputs
    of_rows = matched.flatten(0, 1)
    sentence = torch.arange(matched.shape[0], device=hidden.device)[:, None].expand(-1, hidden.shape[1]).flatten()
    for part, logits in _logit_chunks(hidden, weight, bias):
        peak = logits.amax(1, keepdim=True)
        if targets is not None:
            wanted = targets.flatten(0, 1)[part]
            log_probs.view(-1, wanted.shape[1])[part] = logits.gather(1, wanted)
        exponentials = logits.sub_(peak).exp_()
        normaliser = exponentials.sum(1, keepdim=True)
        log_normaliser[part] = (peak + normaliser.log()).squeeze(1)
        of_rows[part] = exponentials.gather(1, ids[sentence[part]]) / normaliser
        if word_start is not None:
            opening.view(-1)[part] = torch.mv(exponentials, word_start.to(logits.dtype)) / normaliser.squeeze(1)
        if mean_weight:
            expected_weight[part] = torch.mm(exponentials.to(weight.dtype), weight).to(logits.dtype) / normaliser
    if targets is not None:
        log_probs -= log_normaliser.view(*targets.shape[:2], 1)
    return outputs, None


def backward(kept: None, needs: tuple[bool, ...], grads: Any, outputs: Outputs, inputs: Any) -> list[Tensor | None]:
    """The gradients of hidden states, weight and bias."""
    hidden, weight, *_ = inputs
    matched, _, opening, expected_weight, log_normaliser = outputs
    row = RowGradient.of(grads[:3], matched, opening).flat()
    known = expected_weight.shape[0] > 0
    again = (needs[0] and not known, needs[1], needs[2])
    found: list[Tensor | None] = [None, None, None]
    if any(again):
        found = _dense_gradient(inputs, log_normaliser, row, again)
    if needs[0] and known:
        found[0] = expected_weight * row.scale[:, None]
    _add_sparse(found, row, inputs)
    for index, like in enumerate((hidden, weight, weight)):
        if (gradient := found[index]) is not None:
            found[index] = gradient.to(like.dtype)
    return [None if found[0] is None else found[0].view(hidden.shape), *found[1:]]


def _dense_gradient(
    inputs: Any, log_normaliser: Tensor, row: RowGradient, needs: tuple[bool, ...]
) -> list[Tensor | None]:
    """The gradients of hidden states (B T, H), weight and bias through the softmax, None where not needed."""
    hidden, weight, bias, _, _, word_start, _ = inputs
    dtype, states = compute_dtype(hidden), hidden.flatten(0, 1)
    shapes = (states.shape, weight.shape, weight.shape[:1])
    found = [hidden.new_zeros(shape, dtype=dtype) if need else None for shape, need in zip(shapes, needs, strict=True)]
    of_hidden, of_weight, of_bias = found
    broken = row.broken.view(-1)
    for part, logits in _logit_chunks(hidden, weight, bias):
        grad_logits = logits.sub_(log_normaliser[part, None]).exp_().mul_(row.factors(part, word_start))
        if broken.device.type not in SYNCHRONOUS or broken[part].any():
            grad_logits.masked_fill_(broken[part, None], 0)
        if of_hidden is not None:
            of_hidden[part] = _product(grad_logits, weight)
        if of_weight is not None:
            rows = torch.where(broken[part, None], 0, states[part]).to(weight.dtype)
            _add_product(of_weight, grad_logits.t(), rows)
        if of_bias is not None:
            of_bias += grad_logits.sum(0)
    return found


def _add_sparse(found: list[Tensor | None], row: RowGradient, inputs: Any) -> None:
    """Add the gradients of single tokens to those of hidden states (B T, H), weight and bias that are not None."""
    hidden, weight, _, ids, targets, _, _ = inputs
    of_hidden, of_weight, of_bias = found
    pulls = [(torch.where(row.broken[..., None], 0, row.pull), ids[:, None].expand_as(row.pull))]
    if row.own is not None:
        pulls.append((torch.where(row.broken[..., None], 0, row.own), targets))
    if of_hidden is not None:
        of_hidden.masked_fill_(row.broken.view(-1, 1), 0)
        _add_product(of_hidden.view(hidden.shape), pulls[0][0], weight[ids])
        for pull, tokens in pulls[1:]:
            of_hidden.view(hidden.shape).add_((pull[..., None] * weight[tokens].to(pull.dtype)).sum(2))
    if of_weight is not None:
        states = torch.where(row.broken[..., None], 0, hidden)
        of_tokens = _product(pulls[0][0].transpose(1, 2), states.to(weight.dtype))
        of_weight.index_add_(0, ids.reshape(-1), of_tokens.flatten(0, 1))
        for pull, tokens in pulls[1:]:
            of_weight.index_add_(0, tokens.reshape(-1), (pull[..., None] * states[:, :, None]).flatten(0, 2))
    if of_bias is not None:
        for pull, tokens in pulls:
            of_bias.index_add_(0, tokens.reshape(-1), pull.reshape(-1))


def _product(values: Tensor, factor: Tensor) -> Tensor:
    """values @ factor in the type of the values, float32 or wider.

    A half-precision factor is not widened: the values are rounded to its type, the matrix product sums in float32, and
    its result is rounded to that type. The values are scaled to at most 1 before, since gradients may be below the
    range of float16.
    """
    if factor.dtype == values.dtype:
        return values @ factor
    largest = values.abs().amax().clamp_(min=torch.finfo(values.dtype).tiny) if values.numel() else 1
    return ((values / largest).to(factor.dtype) @ factor).to(values.dtype).mul_(largest)


def _add_product(total: Tensor, values: Tensor, factor: Tensor) -> None:
    """Add :func:`_product` in place, of matrices or of batches of them; ``total`` has the type of the values."""
    if factor.dtype != values.dtype:
        total.add_(_product(values, factor))
    elif total.dim() == 3:
        total.baddbmm_(values, factor)
    else:
        total.addmm_(values, factor)


def _logit_chunks(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """Rows and their logits (rows, V), in a reused buffer that the caller may overwrite."""
    states = hidden.flatten(0, 1)
    rows, vocabulary = states.shape[0], weight.shape[0]
    height = min(rows, max(LEAST_ROWS, states.numel() // max(1, vocabulary)))
    buffer = hidden.new_empty(height, vocabulary, dtype=weight.dtype)
    for first in range(0, rows, max(1, height)):
        part = slice(first, min(first + height, rows))
        logits = torch.mm(states[part].to(weight.dtype), weight.t(), out=buffer[: part.stop - first])
        if bias is not None:
            logits += bias
        yield part, logits.to(compute_dtype(hidden))
