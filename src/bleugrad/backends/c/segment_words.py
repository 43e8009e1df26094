"""Words of token references by a hash table."""

import torch
from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import segment_words


def forward(keep: bool, ids: Tensor, lengths: Tensor, word_start: Tensor) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.segment_words`."""
    if not ids.numel():
        return None
    outputs = segment_words.shapes(ids, lengths, word_start)
    given, counts = (ids, lengths, word_start, *outputs), {"parts": ids.shape[0], "work": ids.numel()}
    return (outputs, None) if run("segment_words", ids.shape, *given, **counts, dtype=torch.float32) else None
