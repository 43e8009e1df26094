"""The positions that count, time first, and how a sequence and its words end, in one pass."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.c.library import Problem, fields, library_for, make_problem
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import counted_rows


class _Counted(Problem):
    _fields_ = fields("batch steps width columns extra", "probs opening order limits ends")


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.counted_rows`."""
    if (library := library_for(inputs[0])) is None:
        return None
    outputs = counted_rows.shapes(*inputs)
    written = (one if one.dim() > 1 else None for one in outputs)
    library.run("counted_rows", _problem(inputs), sum(one.numel() for one in outputs), *written)
    return outputs, None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``match_probs`` and ``opening``."""
    if (library := library_for(inputs[0])) is None:
        return None
    found = [None if one is None else torch.zeros_like(one).contiguous() for one in inputs[:2]]
    library.run("counted_rows_backward", _problem(inputs), sum(one.numel() for one in outputs), *grads, *found)
    return tuple(found)


def _problem(inputs: Any) -> Any:
    match_probs, *others, columns, extra = inputs
    return make_problem(_Counted, (*match_probs.shape, columns, extra), match_probs, *others)
