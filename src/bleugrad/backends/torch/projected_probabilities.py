"""Match probabilities from hidden states and the output projection; the logits of the whole batch never exist.

Cross-entropy knows the gradient of a row as soon as it has the row's logits. BLEU does not: it needs the match
probabilities of all rows first. So the backward pass forms the logits again, chunk by chunk: four products of the size
of the projection. If the projection is frozen, two are enough: the gradient of a row of logits is ``-s_t p[t]`` plus a
few single tokens, s_t one number, so that of its hidden state is ``-s_t (p[t] @ weight)`` plus a few rows of the
weight, and ``p @ weight`` is formed in the forward pass. With a half-precision weight all products have half-precision
factors; sums over chunks are in float32.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import projected_probabilities, row_probabilities
from bleugrad.backends.torch.row_probabilities import Block, blocks, part_of

LEAST_ROWS = 64
"""Rows per chunk, unless the hidden states of the batch are larger than the logits of such a chunk."""


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.projected_probabilities`."""
    hidden, weight, bias, ids, targets, word_start, sharpness, frozen = inputs
    outputs = projected_probabilities.shapes(*inputs)
    for block, logits in _logit_chunks(hidden, weight, bias):
        of_chunk = (logits, ids[block[0]], *part_of((targets,), block), word_start, sharpness, False)
        found = row_probabilities.forward(False, of_chunk)[0]
        for output, values in zip(outputs[:5], found, strict=True):
            if values.numel():
                output[block] = values
        if frozen:  # the gradient of -log p of token 0 is p, less 1 at that token
            token = ids.new_zeros(*logits.shape[:2], 1)
            less = (None, found[0].new_full(token.shape, -1), None, None)
            given = (logits, ids[block[0], :0], token, None, 1.0, True)
            difference = row_probabilities.backward(None, None, (True,), less, (found[0][..., :0], *found[1:]), given)[
                0
            ]
            assert difference is not None
            outputs[5][block] = _product(difference.to(found[0].dtype), weight) + weight[0]
    return outputs, None


def backward(kept: None, needs: tuple[bool, ...], grads: Any, outputs: Outputs, inputs: Any) -> list[Tensor | None]:
    """The gradients of hidden states, weight and bias."""
    hidden, weight, bias, ids, targets, word_start, sharpness, frozen = inputs
    if frozen and not any(needs[1:]):
        return [_frozen_gradient(grads, outputs, inputs).to(hidden.dtype), None, None]
    shapes, dtype = (hidden.shape, weight.shape, weight.shape[:1]), torch.promote_types(hidden.dtype, torch.float32)
    found = [hidden.new_zeros(shape, dtype=dtype) if need else None for shape, need in zip(shapes, needs, strict=True)]
    of_hidden, of_weight, of_bias = found
    for block, logits in _logit_chunks(hidden, weight, bias):
        given = (logits, ids[block[0]], *part_of((targets,), block), word_start, sharpness, True)
        grad = _row_gradient(part_of(grads[:5], block), part_of(outputs[:5], block), given)
        grad = grad.to(dtype) if grad.dtype != weight.dtype else grad
        if of_hidden is not None:
            of_hidden[block] = _product(grad, weight).to(dtype)
        if of_weight is not None:
            states = torch.where(_broken(outputs[4][block]), 0, hidden[block]).to(weight.dtype)
            _add_product(of_weight, grad.flatten(0, 1).t(), states.flatten(0, 1))
        if of_bias is not None:
            of_bias += grad.sum((0, 1), dtype=dtype)
    kinds = (hidden.dtype, weight.dtype, weight.dtype)
    return [None if one is None else one.to(kind) for one, kind in zip(found, kinds, strict=True)]


def _row_gradient(grads: Any, outputs: Any, inputs: Any) -> Tensor:
    """The gradient of a chunk of logits, see :data:`bleugrad.backends.operations.row_probabilities`."""
    (found, *_) = row_probabilities.backward(None, None, (True,), grads, outputs, inputs)
    assert found is not None
    return found


def _frozen_gradient(grads: Any, outputs: Outputs, inputs: Any) -> Tensor:
    """The gradient of the hidden states (B, T, H), from the expected rows of the weight."""
    _, weight, _, ids, targets, *_ = inputs
    matched, _, _, _, normalisers, expected = outputs
    of_matched, of_log_probs, _, of_means = (None if grad is None or not grad.numel() else grad for grad in grads[:4])
    found, total = torch.zeros_like(expected), torch.zeros_like(expected[..., :1])
    if of_matched is not None:
        pull = torch.where(_broken(normalisers), 0, of_matched * matched)
        total += pull.sum(-1, keepdim=True)
        _add_product(found, pull, weight[ids])
    if of_log_probs is not None:
        total += of_log_probs.sum(-1, keepdim=True)
        found += (of_log_probs[..., None] * weight[targets].to(found.dtype)).sum(2)
    if of_means is not None:
        total += of_means[..., None]
        found += of_means[..., None] * weight.mean(0, dtype=found.dtype)
    return found.addcmul_(total, expected, value=-1).masked_fill_(_broken(normalisers), 0)


def _broken(normalisers: Tensor) -> Tensor:
    """Which rows have no softmax, (B, T, 1)."""
    return ~normalisers.sum(-1, keepdim=True).isfinite()


def _product(values: Tensor, factor: Tensor) -> Tensor:
    """values @ factor in the type of the values.

    A half-precision factor of wider values is not widened: the values are rounded to its type, the matrix product sums
    in float32, and its result is rounded to that type. The values are scaled to at most 1 before, since gradients may
    be below the range of float16.
    """
    if factor.dtype == values.dtype:
        return values @ factor
    largest = values.abs().amax().clamp_(min=torch.finfo(values.dtype).tiny) if values.numel() else 1
    return ((values / largest).to(factor.dtype) @ factor).to(values.dtype).mul_(largest)


def _add_product(total: Tensor, values: Tensor, factor: Tensor) -> None:
    """Add :func:`_product` in place, of matrices or of batches of them."""
    if not total.dtype == factor.dtype == values.dtype:
        total.add_(_product(values, factor))
    elif total.dim() == 3:
        total.baddbmm_(values, factor)
    else:
        total.addmm_(values, factor)


def _logit_chunks(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Iterator[tuple[Block, Tensor]]:
    """Blocks of rows and their logits (b, t, V), in a reused buffer that the caller may overwrite.

    Logits of a bfloat16 weight are bfloat16. Those of other types are computed in float32 or wider, since the gradients
    that take their place may be below the range of float16.
    """
    batch, steps, width = hidden.shape
    vocabulary = weight.shape[0]
    height = min(batch * steps, max(LEAST_ROWS, hidden.numel() // vocabulary))
    buffer, kind = (
        hidden.new_empty(height, vocabulary, dtype=weight.dtype),
        torch.promote_types(hidden.dtype, torch.float32),
    )
    for block in blocks(batch, steps, height):
        states = hidden[block].to(weight.dtype).reshape(-1, width)
        logits = torch.mm(states, weight.t(), out=buffer[: states.shape[0]])
        if bias is not None:
            logits += bias
        rows = logits if weight.dtype == torch.bfloat16 else logits.to(kind)
        yield block, rows.view(*hidden[block].shape[:2], vocabulary)
