"""Clips and self-overlaps of n-grams by comparing all pairs of columns, in tiles."""

from typing import Any

import triton
import triton.language as tl

from bleugrad.backends.operation import Outputs
from bleugrad.backends.operations import ngram_patterns
from bleugrad.backends.triton.launching import lanes, launch


@triton.jit
def ngram_patterns_kernel(
    ids, lengths, clips, overlaps, references, width, orders, BLOCK: tl.constexpr, OTHER: tl.constexpr
):
    """The n-grams of one sentence and order at a block of columns; O(K R) comparisons of n tokens per column."""
    sentence, order = tl.program_id(0), tl.program_id(1) + 1
    columns = references * width
    row = ids + sentence.to(tl.int64) * columns
    j = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = j < columns
    own = tl.load(lengths + sentence * references + j // width, inside, 0)
    fits = inside & (j % width + order <= own)
    most, earlier = tl.zeros([BLOCK], tl.int64), tl.zeros([BLOCK], tl.int32)
    for reference in range(references):
        length = tl.load(lengths + sentence * references + reference)
        count = tl.zeros([BLOCK], tl.int64)
        for first in range(0, width, OTHER):
            place = first + tl.arange(0, OTHER)
            i = reference * width + place
            equal = fits[:, None] & (place + order <= length)[None, :]
            for step in range(order):
                here = tl.load(row + j + step, fits, 0)
                there = tl.load(row + i + step, i + step < columns, 0)
                equal = equal & (here[:, None] == there[None, :])
            count += tl.sum(equal.to(tl.int64), 1)
            earlier += tl.sum((equal & (i[None, :] < j[:, None])).to(tl.int32), 1)
        most = tl.maximum(most, count)
    at = (sentence.to(tl.int64) * orders + order - 1) * columns + j
    tl.store(clips + at, tl.where(earlier == 0, most, 0), inside)
    for shift in range(1, orders):
        same = inside & (j * 0 + shift < order) & (j + order <= columns)
        for step in range(order - shift):
            here, there = tl.load(row + j + step, same, 0), tl.load(row + j + step + shift, same, 0)
            same = same & (here == there)
        tl.store(overlaps + (shift - 1) * tl.num_programs(0).to(tl.int64) * orders * columns + at, same, inside)


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.ngram_patterns`."""
    ids, lengths, max_order = inputs
    clips, overlaps = ngram_patterns.shapes(*inputs)
    batch, references, width = ids.shape
    block = lanes(references * width, most=64)
    grid = (batch, max_order, triton.cdiv(references * width, block))
    arguments = (ids.contiguous(), lengths.contiguous(), clips, overlaps, references, width, max_order)
    launch(ngram_patterns_kernel, grid, *arguments, BLOCK=block, OTHER=lanes(width, most=64))
    return (clips, overlaps), None
