"""Words of token references by a hash table."""

import torch
from torch import Tensor

from bleugrad.backends.c.library import Problem, fields, library_for, make_problem
from bleugrad.backends.dispatch import Outputs


class _Segments(Problem):
    _fields_ = fields("batch references width most", "ids lengths opens counts starts spans numbers continued")


def forward(keep: bool, ids: Tensor, lengths: Tensor, word_start: Tensor) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.segment_words`."""
    library = library_for(ids, torch.float32) if ids.numel() else None
    if library is None:
        return None
    starts, spans, numbers = (torch.empty_like(ids, memory_format=torch.contiguous_format) for _ in range(3))
    continued, counts = torch.empty(ids.shape, dtype=torch.bool), torch.empty_like(lengths).contiguous()
    found = (counts, starts, spans, numbers, continued)
    problem = make_problem(_Segments, (*ids.shape, ids.shape[2]), ids, lengths, word_start, *found)
    library.call("count_words", problem)
    if library.call("segment_words", problem):
        raise MemoryError("out of memory while numbering the words of the references")
    return (starts, spans, numbers, continued, counts), None
