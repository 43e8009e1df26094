"""Match probabilities in one pass over the logits, in blocks of rows.

With d = logits - m for the largest logit m of a row, p = exp(d - log sum exp(d)) and
q = exp(s d - log sum exp(s d)) for the sharpness s. With gradients g of the outputs, that of the logit of token v is ::

    s q[v] (g_opening word_start[v] - pulled) - own p[v] + g_mean / V

plus ``s q[v] g`` where v is one of the ids, and ``g`` where it is one of the targets. ``pulled`` is the sum of q g over
the ids and of opening * g_opening; ``own`` is the sum of g over the targets and of g_mean.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import row_probabilities

Block: TypeAlias = tuple[slice, slice]
"""Sentences and positions: several whole sentences, or a part of one."""

BLOCK_ELEMENTS = {"cpu": 2**18}
"""Logits per block, which fit the cache of a CPU core. ``BLOCK_DEFAULT`` on other devices."""

BLOCK_DEFAULT = 2**26


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.row_probabilities`."""
    logits, ids, targets, word_start, sharpness, _ = inputs
    outputs = row_probabilities.shapes(*inputs)
    matched, log_probs, opening, means, normalisers = outputs
    for block in row_blocks(logits):
        values = logits[block].to(matched.dtype)
        peak = values.amax(-1, keepdim=True)
        values = values - peak
        plain, sharp = values.logsumexp(-1, keepdim=True), (sharpness * values).logsumexp(-1, keepdim=True)
        normalisers[block] = torch.cat([peak, plain, sharp], -1)
        tokens = expanded(ids[block[0]], values.shape[1])
        matched[block] = (sharpness * values.gather(2, tokens) - sharp).exp()
        if targets is not None:
            log_probs[block] = values.gather(2, targets[block]) - plain
            means[block] = values.mean(-1) - plain.squeeze(-1)
        if word_start is not None:
            opening[block] = ((sharpness * values - sharp).exp() * word_start).sum(-1)
    return outputs, None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the logits."""
    logits, ids, targets, word_start, sharpness, inplace = inputs
    grad = logits if inplace else torch.empty_like(logits)
    for block in row_blocks(logits):
        matched, _, opening, _, normalisers = part_of(outputs, block)
        of_matched, of_log_probs, of_opening, of_means = part_of(grads[:4], block)
        peak, plain, sharp = normalisers.split(1, -1)
        values = logits[block].to(matched.dtype) - peak
        pulled, own = torch.zeros_like(peak), torch.zeros_like(peak)
        found, tokens = torch.zeros_like(values), expanded(ids[block[0]], values.shape[1])
        if _given(of_matched):
            pull = of_matched * matched
            pulled += pull.sum(-1, keepdim=True)
            found.scatter_add_(2, tokens, sharpness * pull)
        if _given(of_log_probs):
            own += of_log_probs.sum(-1, keepdim=True)
            found.scatter_add_(2, targets[block], of_log_probs)
        if _given(of_means):
            own += of_means[..., None]
            found += of_means[..., None] / values.shape[2]
        factor = -pulled
        if _given(of_opening):
            factor = factor + of_opening[..., None] * (word_start.to(values.dtype) - opening[..., None])
        found += sharpness * factor * (sharpness * values - sharp).exp() - own * (values - plain).exp()
        broken = ~(peak + plain + sharp).isfinite()
        grad[block] = found.masked_fill_(broken, 0)
    return (grad,)


def _given(grad: Tensor | None) -> bool:
    return grad is not None and grad.numel() > 0


def row_blocks(logits: Tensor) -> Iterator[Block]:
    """Blocks of the rows of logits (B, T, V)."""
    batch, steps, vocabulary = logits.shape
    return blocks(batch, steps, BLOCK_ELEMENTS.get(logits.device.type, BLOCK_DEFAULT) // vocabulary)


def blocks(batch: int, steps: int, rows: int) -> Iterator[Block]:
    """Blocks of at most ``rows`` rows of (B, T), and at least one.

    Parts of one sentence are about equally long.

    >>> list(blocks(2, 3, rows=2))[:2]
    [(slice(0, 1, None), slice(0, 2, None)), (slice(0, 1, None), slice(2, 3, None))]
    """
    if steps == 0:
        return
    sentences, parts = max(1, rows // steps), -(-steps // max(1, rows))
    height = -(-steps // parts)
    for first in range(0, batch, sentences):
        for start in range(0, steps, height):
            yield slice(first, min(first + sentences, batch)), slice(start, min(start + height, steps))


def part_of(tensors: tuple[Tensor | None, ...], block: Block) -> tuple[Any, ...]:
    """The block of each tensor (B, T, ...); None and empty tensors stay as they are."""
    return tuple(one if one is None or not one.numel() else one[block] for one in tensors)


def expanded(ids: Tensor, steps: int) -> Tensor:
    """Ids of sentences (B, L) for each of their positions, (B, T, L), without a copy."""
    return ids[:, None].expand(-1, steps, -1)
