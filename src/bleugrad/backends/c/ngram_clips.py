"""Counts of the references' n-grams by a hash table."""

import torch
from torch import Tensor

from bleugrad.backends.c.library import Problem, call, fields
from bleugrad.backends.dispatch import Outputs


class _Ngrams(Problem):
    _fields_ = fields("batch references width orders", "ids lengths clips overlaps")


def forward(keep: bool, ids: Tensor, lengths: Tensor, max_order: int) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.ngram_clips`. O(N L) time per sentence."""
    clips = ids.new_empty(ids.shape[0], max_order, ids.shape[1] * ids.shape[2])
    overlaps = clips.new_empty(max_order - 1, *clips.shape, dtype=torch.bool)
    problem = (_Ngrams, (*ids.shape, max_order), ids, lengths, clips, overlaps)
    return ((clips, overlaps), None) if call("ngram_clips", *problem) else None
