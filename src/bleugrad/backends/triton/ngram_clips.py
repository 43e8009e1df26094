"""Counts of the references' n-grams: a program per sentence and order compares all pairs of columns."""

from typing import Any

import triton
import triton.language as tl

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import ngram_clips
from bleugrad.backends.triton.launching import lanes, launch


@triton.jit
def ngram_clips_kernel(
    ids, lengths, clips, overlaps, batch, references, width, orders, BLOCK: tl.constexpr, OTHER: tl.constexpr
):
    """The largest count over references at the first of all equal n-grams, and the shifts that equal an n-gram."""
    sentence, order = tl.program_id(0).to(tl.int64), tl.program_id(1) + 1
    columns = references * width
    row, lengths = ids + sentence * columns, lengths + sentence * references
    at = (sentence * orders + order - 1) * columns
    stride = batch.to(tl.int64) * orders * columns
    for first in range(0, columns, BLOCK):
        j = first + tl.arange(0, BLOCK)
        fits = (j % width) + order <= tl.load(lengths + j // width, j < columns, 0)
        earlier = tl.zeros([BLOCK], tl.int32)
        clip = tl.zeros([BLOCK], tl.int32)
        for reference in range(references):
            number = tl.zeros([BLOCK], tl.int32)
            last = reference * width + tl.load(lengths + reference) - order
            for second in range(0, width, OTHER):
                i = reference * width + second + tl.arange(0, OTHER)
                equal = fits[:, None] & (i <= last)[None, :]
                for step in range(order):
                    here = tl.load(row + j + step, fits, 0)
                    there = tl.load(row + i + step, i <= last, 0)
                    equal = equal & (here[:, None] == there[None, :])
                number += tl.sum(equal.to(tl.int32), 1)
                earlier += tl.sum((equal & (i[None, :] < j[:, None])).to(tl.int32), 1)
            clip = tl.maximum(clip, number)
        tl.store(clips + at + j, tl.where(earlier == 0, clip, 0).to(tl.int64), j < columns)
        for shift in range(1, orders):
            same = (j + order <= columns) & (tl.zeros([BLOCK], tl.int32) + shift < order)
            for step in range(order - shift):
                same = same & (tl.load(row + j + step, same, 0) == tl.load(row + j + step + shift, same, 0))
            tl.store(overlaps + (shift - 1) * stride + at + j, same, j < columns)


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.ngram_clips`. O(N^2 L^2) time per sentence, in parallel."""
    ids, lengths, max_order = inputs
    outputs = ngram_clips.shapes(*inputs)
    batch, references, width = ids.shape
    arguments = (ids.contiguous(), lengths.contiguous(), *outputs, batch, references, width, max_order)
    blocks = {"BLOCK": lanes(references * width, most=128), "OTHER": lanes(width, most=64)}
    launch(ngram_clips_kernel, (batch, max_order), *arguments, **blocks)
    return outputs, None
