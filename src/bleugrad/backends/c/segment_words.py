"""Words of token references by a hash table."""

import torch
from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.dispatch import Outputs


def forward(keep: bool, ids: Tensor, lengths: Tensor, word_start: Tensor) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.segment_words`."""
    if not ids.numel():
        return None
    starts, spans, numbers = (ids.new_empty(ids.shape) for _ in range(3))
    continued, counts = ids.new_empty(ids.shape, dtype=torch.bool), lengths.new_empty(lengths.shape)
    sizes, given = (*ids.shape, ids.shape[2]), (ids, lengths, word_start, counts, starts, spans, numbers, continued)
    done = run("segment_words", sizes, *given, parts=ids.shape[0], work=ids.numel(), dtype=torch.float32)
    return ((starts, spans, numbers, continued, counts), None) if done else None
