"""The matches along paths in C within blocks of vertices, and products of matrices between blocks."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import fields, library_for, make_problem
from bleugrad.backends.c.ngram_problem import NgramProblem, sizes
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.path_matches import at_last, lengths_gradient

BLOCK = 48
"""Vertices of a block."""

LANES = 16
"""As in ``common.h``."""


class _Paths(NgramProblem):
    _fields_ = fields("width first last", "")


def forward(
    keep: bool, token_probs: Tensor, transitions: Tensor, clips: Tensor, overlaps: Tensor, ids: Tensor, limits: Tensor
) -> tuple[Outputs, Any] | None:
    """See :data:`bleugrad.backends.operations.path_matches`. Keeps the rows before and after each vertex."""
    if (library := library_for(token_probs)) is None:
        return None
    steps, batch, _ = token_probs.shape
    problem, transitions = _problem(token_probs, clips, overlaps), transitions.contiguous()
    before = token_probs.new_empty(batch, steps, problem.width)
    after, matches = torch.empty_like(before), token_probs.new_zeros(clips.shape[:2])
    for problem.first in range(0, steps, BLOCK):
        problem.last = min(problem.first + BLOCK, steps)
        block = slice(problem.first, problem.last)
        if problem.first:
            before[:, block] = transitions[:, : problem.first, block].mT @ after[:, : problem.first]
        library.run("path_matches", problem, before.numel(), ids, transitions, before, after, matches)
    return (matches, at_last(after, limits)), (before, after) if keep else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, Tensor] | None:
    """The gradients of ``token_probs`` and ``transitions``."""
    token_probs, transitions, clips, overlaps, ids, limits = inputs
    if (library := library_for(token_probs)) is None:
        return None
    before, after = forward(True, *inputs)[1] if kept is None else kept  # type: ignore[index]
    problem, transitions = _problem(token_probs, clips, overlaps), transitions.contiguous()
    of_matches = torch.zeros_like(outputs[0]) if grads[0] is None else grads[0]
    of_after, of_before = lengths_gradient(after, limits, grads[1]), torch.empty_like(before)
    found = token_probs.new_empty(token_probs.shape)
    for problem.first in reversed(range(0, len(token_probs), BLOCK)):
        problem.last = min(problem.first + BLOCK, len(token_probs))
        rows = (ids, transitions, before, of_after, of_before, of_matches, found)
        library.run("path_matches_backward", problem, before.numel(), *rows)
        if problem.first:
            block = slice(problem.first, problem.last)
            of_after[:, : problem.first].baddbmm_(transitions[:, : problem.first, block], of_before[:, block])
    return found, (after @ of_before.mT).triu(1) if needs[1] else None  # type: ignore[return-value]


def _problem(token_probs: Tensor, clips: Tensor, overlaps: Tensor) -> Any:
    """The problem of the C functions, with the width of the rows they work on."""
    steps, batch, columns = token_probs.shape
    orders = torch.arange(1, clips.shape[1] + 1)
    automata = (clips > 1) | ((clips == 1) & overlaps.any(0))
    states = ((clips.clamp(max=steps) * automata).sum(2) * orders).sum(1)
    problem = make_problem(_Paths, sizes(token_probs, len(orders)), token_probs, clips, overlaps, None, None, None)
    problem.width = steps + 1 + int(orders.sum()) * -(-columns // LANES) * LANES + int(states.max() if batch else 0)
    return problem
