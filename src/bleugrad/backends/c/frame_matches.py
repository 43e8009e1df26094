"""The matches of CTC frames in C, sentence by sentence."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import library_for, make_problem
from bleugrad.backends.c.ngram_problem import NgramProblem, sizes
from bleugrad.backends.dispatch import Outputs


def forward(
    keep: bool, token_probs: Tensor, blank: Tensor, clips: Tensor, overlaps: Tensor, ids: Tensor
) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.frame_matches`."""
    if (library := library_for(token_probs)) is None:
        return None
    matches = token_probs.new_zeros(clips.shape[:2])
    problem, work = _problem(token_probs, clips, overlaps)
    library.run("frame_matches", problem, work, blank, ids, matches)
    return (matches,), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, ...] | None:
    """The gradients of ``token_probs`` and ``blank``."""
    token_probs, blank, clips, overlaps, ids = inputs
    if (library := library_for(token_probs)) is None:
        return None
    found = token_probs.new_empty(token_probs.shape), torch.zeros_like(blank, memory_format=torch.contiguous_format)
    problem, work = _problem(token_probs, clips, overlaps)
    library.run("frame_matches_backward", problem, 2 * work, blank, ids, grads[0], *found)
    return found


def _problem(token_probs: Tensor, clips: Tensor, overlaps: Tensor) -> tuple[NgramProblem, int]:
    """The problem of the C functions, and the number of values they compute."""
    orders = clips.shape[1]
    problem = make_problem(NgramProblem, sizes(token_probs, orders), token_probs, clips, overlaps, None, None, None)
    return problem, token_probs.numel() * orders
