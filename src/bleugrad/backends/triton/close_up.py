"""Valid entries to the front: a program per row."""

from typing import Any

import triton
import triton.language as tl

from bleugrad.backends.operation import Outputs
from bleugrad.backends.operations import close_up
from bleugrad.backends.triton.launching import lanes, launch


@triton.jit
def close_up_kernel(values, valid, closed, lengths, eos, size, BLOCK: tl.constexpr):
    """A row: the valid entries before the first ``eos`` (below 0: none), then zeros."""
    row = tl.program_id(0).to(tl.int64) * size
    number = 0
    ended = 0
    for first in range(0, size, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = at.to(tl.int64)
        if values is not None:
            value = tl.load(values + row + at, at < size, 0)
        counts = tl.load(valid + row + at, at < size, 0).to(tl.int32)
        ends = tl.where((value == eos) & (eos >= 0), counts, 0)
        counts = tl.where((ended + tl.cumsum(ends, 0)) == 0, counts, 0)
        tl.store(closed + row + number + tl.cumsum(counts, 0) - 1, value, counts > 0)
        number += tl.sum(counts, 0)
        ended += tl.sum(ends, 0)
    for first in range(0, size, BLOCK):
        at = first + tl.arange(0, BLOCK)
        tl.store(closed + row + at, tl.zeros([BLOCK], tl.int64), (at >= number) & (at < size))
    tl.store(lengths + tl.program_id(0), number + tl.zeros([], tl.int64))


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.close_up`."""
    valid, values, eos_id = inputs
    closed, lengths = close_up.shapes(*inputs)
    size, eos = valid.shape[-1], -1 if eos_id is None else eos_id
    arguments = (None if values is None else values.contiguous(), valid.contiguous(), closed, lengths)
    launch(close_up_kernel, (lengths.numel(),), *arguments, eos, size, BLOCK=lanes(size))
    return (closed, lengths), None
