"""The matches along paths in C within blocks of vertices, and products of matrices between blocks."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import library_for, run
from bleugrad.backends.c.ngram_problem import LANES, sizes
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.path_matches import at_last, lengths_gradient

BLOCK = 48
"""Vertices of a block."""


def forward(
    keep: bool, token_probs: Tensor, transitions: Tensor, clips: Tensor, overlaps: Tensor, ids: Tensor, limits: Tensor
) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.path_matches`. Keeps the rows before and after each vertex."""
    if library_for(token_probs) is None:
        return None
    steps, batch, _ = token_probs.shape
    given, width = _tensors(token_probs, transitions, clips, overlaps, ids), _row_width(steps, clips, overlaps)
    before = token_probs.new_empty(batch, steps, width)
    after, matches = torch.empty_like(before), token_probs.new_zeros(clips.shape[:2])
    for first in range(0, steps, BLOCK):
        last = min(first + BLOCK, steps)
        if first:
            before[:, first:last] = transitions[:, :first, first:last].mT @ after[:, :first]
        block = (width, first, last, *sizes(token_probs, clips.shape[1]))
        run("path_matches", block, *given, before, after, matches, *(None,) * 4, parts=batch, work=before.numel())
    return (matches, at_last(after, limits)), (before, after) if keep else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, Tensor] | None:
    """The gradients of ``token_probs`` and ``transitions``."""
    token_probs, transitions, clips, *_, limits = inputs
    if library_for(token_probs) is None:
        return None
    before, after = forward(True, *inputs)[1] if kept is None else kept  # type: ignore[index]
    given, width = _tensors(*inputs[:5]), before.shape[2]
    of_matches = torch.zeros_like(outputs[0]) if grads[0] is None else grads[0]
    of_after, of_before = lengths_gradient(after, limits, grads[1]), torch.empty_like(before)
    found = token_probs.new_empty(token_probs.shape)
    for first in reversed(range(0, len(token_probs), BLOCK)):
        last = min(first + BLOCK, len(token_probs))
        block, rows = (width, first, last, *sizes(token_probs, clips.shape[1])), (before, after, outputs[0])
        given_back = (of_after, of_before, of_matches, found)
        run("path_matches", block, *given, *rows, *given_back, parts=len(before), work=before.numel())
        if first:
            of_after[:, :first].baddbmm_(transitions[:, :first, first:last], of_before[:, first:last])
    return found, (after @ of_before.mT).triu(1) if needs[1] else None  # type: ignore[return-value]


def _tensors(token_probs: Tensor, transitions: Tensor, clips: Tensor, overlaps: Tensor, ids: Tensor) -> tuple[Any, ...]:
    return token_probs, clips, overlaps, None, None, None, ids, transitions


def _row_width(steps: int, clips: Tensor, overlaps: Tensor) -> int:
    """The numbers that a vertex holds, see ``path_matches.c``."""
    batch, number, columns = clips.shape
    orders = torch.arange(1, number + 1)
    automata = (clips > 1) | ((clips == 1) & overlaps.any(0))
    states = ((clips.clamp(max=steps) * automata).sum(2) * orders).sum(1)
    return steps + 1 + int(orders.sum()) * -(-columns // LANES) * LANES + int(states.max() if batch else 0)
