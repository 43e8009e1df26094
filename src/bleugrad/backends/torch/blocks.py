"""Blocks of rows, so that no more than one block of the vocabulary's size is worked on at a time."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from torch import Tensor

Block: TypeAlias = tuple[slice, slice]
"""Sentences and positions: several whole sentences, or a part of one."""

BLOCK_ELEMENTS = {"cpu": 2**18}
"""Logits per block, which fit the cache of a CPU core. ``BLOCK_DEFAULT`` on other devices."""

BLOCK_DEFAULT = 2**26


def row_blocks(logits: Tensor) -> Iterator[Block]:
    """Blocks of the rows of logits (B, T, V)."""
    batch, steps, vocabulary = logits.shape
    return blocks(batch, steps, BLOCK_ELEMENTS.get(logits.device.type, BLOCK_DEFAULT) // vocabulary)


def blocks(batch: int, steps: int, rows: int) -> Iterator[Block]:
    """Blocks of at most ``rows`` rows of (B, T), and at least one.

    Parts of one sentence are about equally long.

    >>> list(blocks(2, 3, rows=2))[:2]
    [(slice(0, 1, None), slice(0, 2, None)), (slice(0, 1, None), slice(2, 3, None))]
    """
    if steps == 0:
        return
    sentences, parts = max(1, rows // steps), -(-steps // max(1, rows))
    height = -(-steps // parts)
    for first in range(0, batch, sentences):
        for start in range(0, steps, height):
            yield slice(first, min(first + sentences, batch)), slice(start, min(start + height, steps))


def part_of(tensors: tuple[Tensor | None, ...], block: Block) -> tuple[Any, ...]:
    """The block of each tensor (B, T, ...); None and empty tensors stay as they are."""
    return tuple(one if one is None or not one.numel() else one[block] for one in tensors)


def expanded(ids: Tensor, steps: int) -> Tensor:
    """Ids of sentences (B, L) for each of their positions, (B, T, L), without a copy."""
    return ids[:, None].expand(-1, steps, -1)
