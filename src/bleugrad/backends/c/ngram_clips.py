"""Counts of the references' n-grams by a hash table."""

import torch
from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.dispatch import Outputs


def forward(keep: bool, ids: Tensor, lengths: Tensor, max_order: int) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.ngram_clips`. O(N L) time per sentence."""
    clips = ids.new_empty(ids.shape[0], max_order, ids.shape[1] * ids.shape[2])
    overlaps = clips.new_empty(max_order - 1, *clips.shape, dtype=torch.bool)
    given, counts = (ids, lengths, clips, overlaps), {"parts": ids.shape[0], "work": clips.numel()}
    done = run("ngram_clips", (*ids.shape, max_order), *given, **counts, dtype=torch.float32)
    return ((clips, overlaps), None) if done else None
