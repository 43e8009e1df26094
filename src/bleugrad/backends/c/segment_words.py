"""Words of token references by a hash table."""

import torch
from torch import Tensor

from bleugrad.backends.c.library import Problem, call, fields
from bleugrad.backends.dispatch import Outputs


class _Segments(Problem):
    _fields_ = fields("batch references width most", "ids lengths opens counts starts spans numbers continued")


def forward(keep: bool, ids: Tensor, lengths: Tensor, word_start: Tensor) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.segment_words`."""
    if not ids.numel():
        return None
    starts, spans, numbers = (torch.empty_like(ids, memory_format=torch.contiguous_format) for _ in range(3))
    continued, counts = torch.empty(ids.shape, dtype=torch.bool), torch.empty_like(lengths).contiguous()
    problem = (ids, lengths, word_start, counts, starts, spans, numbers, continued)
    found = call("segment_words", _Segments, (*ids.shape, ids.shape[2]), *problem)
    return ((starts, spans, numbers, continued, counts), None) if found else None
