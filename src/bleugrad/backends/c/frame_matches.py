"""The matches of CTC frames in C, sentence by sentence."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.c.ngram_problem import sizes
from bleugrad.backends.dispatch import Outputs


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.frame_matches`."""
    matches = inputs[0].new_zeros(inputs[2].shape[:2])
    return ((matches,), None) if _run(inputs, matches, None, None, None) else None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, ...] | None:
    """The gradients of ``token_probs`` and ``blank``."""
    tokens, blank = inputs[:2]
    found = tokens.new_zeros(tokens.shape), torch.zeros_like(blank, memory_format=torch.contiguous_format)
    return found if _run(inputs, None, grads[0], *found) else None


def _run(inputs: Any, *rest: Tensor | None) -> bool:
    tokens, blank, clips, overlaps, ids = inputs
    (_, batch, _), orders = tokens.shape, clips.shape[1]
    given = (tokens, clips, overlaps, None, None, None, blank, ids, *rest)
    return run("frame_matches", sizes(tokens, orders), *given, parts=batch, work=tokens.numel() * orders)
