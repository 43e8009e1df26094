"""Counts of the references' n-grams by a hash table."""

from typing import Any

import torch

from bleugrad.backends.c.library import Problem, fields, library_for, make_problem
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import ngram_clips


class _Ngrams(Problem):
    _fields_ = fields("batch references width orders", "ids lengths clips overlaps")


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.ngram_clips`. O(N L) time per sentence."""
    ids, lengths, max_order = inputs
    if (library := library_for(ids, torch.float32)) is None:
        return None
    outputs = ngram_clips.shapes(*inputs)
    problem = make_problem(_Ngrams, (*ids.shape, max_order), ids, lengths, *outputs)
    if library.call("ngram_clips", problem):
        raise MemoryError("out of memory while counting the n-grams of the references")
    return outputs, None
