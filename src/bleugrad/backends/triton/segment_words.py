"""Words of token references: a program per sentence."""

from typing import Any

import triton
import triton.language as tl

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import segment_words
from bleugrad.backends.triton.launching import lanes, launch


@triton.jit
def segment_words_kernel(
    ids, lengths, word_start, starts, spans, numbers, continued, counts, references, width, vocabulary,
    BLOCK: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """Starts, then spans, then a number for each word: the index of the first word with the same tokens."""
    sentence = tl.program_id(0).to(tl.int64)
    columns = references * width
    row = sentence * columns
    for reference in range(references):
        length = tl.load(lengths + sentence * references + reference)
        number = 0
        base = row + reference * width
        for first in range(0, width, BLOCK):
            at = first + tl.arange(0, BLOCK)
            token = tl.load(ids + base + at, at < width, 0)
            known = (at < length) & (token >= 0) & (token < vocabulary)
            marked = tl.load(word_start + token, known, 0).to(tl.int32)
            opens = tl.where(at < length, tl.where(at == 0, 1, marked), 0)
            to = base + number + tl.cumsum(opens, 0) - 1
            tl.store(starts + to, (reference * width + at).to(tl.int64), opens > 0)
            tl.store(continued + to, marked == 0, opens > 0)
            number += tl.sum(opens, 0)
        tl.store(counts + sentence * references + reference, number + tl.zeros([], tl.int64))
        tl.debug_barrier()
        for first in range(0, width, BLOCK):
            at = first + tl.arange(0, BLOCK)
            used = at < number
            start = tl.load(starts + base + at, used, 0)
            after = tl.load(starts + base + at + 1, at + 1 < number, reference * width + length)
            tl.store(spans + base + at, tl.where(used, after - start, 1), at < width)
            tl.store(starts + base + at, tl.zeros([BLOCK], tl.int64), (at >= number) & (at < width))
            tl.store(continued + base + at, at < 0, (at >= number) & (at < width))
    tl.debug_barrier()
    for first in range(0, columns, BLOCK):
        j = first + tl.arange(0, BLOCK)
        start = tl.load(starts + row + j, j < columns, 0)
        span = tl.load(spans + row + j, j < columns, 1)
        used = (j % width) < tl.load(counts + sentence * references + j // width, j < columns, 0)
        longest = tl.max(tl.where(used, span, 0), 0)
        number = j.to(tl.int64)
        for second in range(0, first + BLOCK, OTHER):
            i = second + tl.arange(0, OTHER)
            begin = tl.load(starts + row + i, i < columns, 0)
            equal = span[:, None] == tl.load(spans + row + i, i < columns, 0)[None, :]
            equal = (
                equal & ((i % width) < tl.load(counts + sentence * references + i // width, i < columns, 0))[None, :]
            )
            for step in range(longest):
                here = tl.load(ids + row + start + step, used & (step < span), 0)
                there = tl.load(ids + row + begin + step, (i < columns) & (begin + step < columns), 0)
                equal = equal & ((here[:, None] == there[None, :]) | (step >= span)[:, None])
            least = tl.min(tl.where(equal, i[None, :], columns), 1)
            number = tl.minimum(number, least.to(tl.int64))
        tl.store(numbers + row + j, tl.where(used, number, 0), j < columns)


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.segment_words`."""
    ids, lengths, word_start = inputs
    outputs = segment_words.shapes(*inputs)
    batch, references, width = ids.shape
    arguments = (ids.contiguous(), lengths.contiguous(), word_start.contiguous(), *outputs)
    sizes = (references, width, word_start.shape[0])
    launch(
        segment_words_kernel, (batch,), *arguments, *sizes, BLOCK=lanes(width, most=128), OTHER=lanes(width, most=64)
    )
    return outputs, None
