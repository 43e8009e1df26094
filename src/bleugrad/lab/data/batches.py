"""Batches: their sentences, their order (a function of seed and epoch), and their padded tensors.

Data parallel training plans batches for all processes and distributes their rows. So two processes with b sentences per
batch see in each step the sentences of one process with 2b.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bleugrad.lab.data.encoding import EncodedSplit
from bleugrad.lab.special_ids import BOS, EOS, PAD

IGNORED = -100
"""Label of padding."""

POOL = 50
"""Batches sorted by length together: a larger pool needs less padding and shuffles less."""

USUAL_LENGTH = 100
"""Evaluation batches hold fewer sentences if sentences are longer than this, which limits memory."""

ReferenceIds = list[list[list[int]]]
"""Token ids of all references of each sentence."""

Order = npt.NDArray[Any]
"""Indices or lengths."""


@dataclass(frozen=True)
class Batch:
    """The tensors of a batch, which may be empty."""

    source: Tensor  # (B, S) ids, ended by EOS, padded with PAD
    source_lengths: Tensor  # (B,) on the CPU, EOS counted
    labels: Tensor  # (B, T) target ids, ended by EOS, padded with -100
    indices: Tensor  # (B,) index of each sentence in its split
    references: ReferenceIds | None = None  # of each sentence, without EOS; None if the target is the only one

    def __len__(self) -> int:
        return self.source.shape[0]

    def inputs(self) -> Tensor:
        """The decoder's input for teacher forcing, (B, T)."""
        return decoder_inputs(self.labels)

    def to(self, device: torch.device | str) -> "Batch":
        """The batch on a device; lengths stay on the CPU, as packing requires."""
        return replace(
            self, source=self.source.to(device), labels=self.labels.to(device), indices=self.indices.to(device)
        )


def decoder_inputs(labels: Tensor) -> Tensor:
    """BOS, then the labels (B, T) shifted by one, with PAD in the place of ignored ones."""
    shifted = labels.new_full(labels.shape, BOS)
    shifted[:, 1:] = labels[:, :-1]
    return shifted.masked_fill(shifted == IGNORED, PAD)


class BatchPlan:
    """Plans the batches of a split.

    Args:
        encoded: the sentences.
        by: the unit of ``size``: sentences, or tokens (sentences times the longest length, source or target).
        size: batch size over all processes (see :func:`shard`).
        seed: random seed of the order, used with the epoch's number. Global random state is not used.
        by_source: sort by source lengths first, for models whose positions follow the source.
    """

    def __init__(
        self,
        encoded: EncodedSplit,
        by: Literal["sentences", "tokens"] = "sentences",
        size: int = 64,
        seed: int = 0,
        by_source: bool = False,
    ) -> None:
        self.encoded, self.by, self.size, self.seed = encoded, by, size, seed
        self._source, self._target = _lengths(encoded.sources) + 1, _lengths(encoded.targets) + 1
        self._keys = (self._target, self._source) if by_source else (self._source, self._target)  # the last is first
        ones = np.broadcast_to(np.int32(1), len(encoded))
        self._sizes = np.maximum(self._source, self._target) if by == "tokens" else ones
        self._has_more = any(len(references) > 1 for references in encoded.references)

    def target_tokens(self, indices: Sequence[int]) -> int:
        """The number of target tokens of these sentences, EOS included."""
        return int(self._target[indices].sum())

    def epoch(self, number: int) -> list[list[int]]:
        """The batches of an epoch as indices: every sentence once, similar lengths together, in random order."""
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, number])))
        order = _permutation(random, len(self.encoded))
        ends: list[int] = []
        pool = POOL * max(1, int(self.size / self._sizes.mean())) if len(order) else 1
        for start in range(0, len(order), pool):
            chosen = order[start : start + pool]
            # The sort is stable: sentences of equal lengths keep their random order.
            chosen = order[start : start + pool] = chosen[np.lexsort([key[chosen] for key in self._keys])]
            ends += [start + end for end in _cut(self._sizes[chosen], self.size, len(order))]
        batches = _batches(order, ends)
        return [batches[place] for place in _permutation(random, len(ends))]

    def ordered(self, size: int) -> list[list[int]]:
        """Batches for evaluation: every sentence once, the longest sources first, independent of the seed.

        A batch holds at most ``size`` sentences, fewer if they are very long.
        """
        order = np.lexsort((np.arange(len(self.encoded)), -self._target, -self._source))
        return _batches(order, _cut(self._source[order], size * USUAL_LENGTH, size))

    def collate(self, indices: Sequence[int]) -> Batch:
        """The tensors of a batch; ``indices`` may be empty."""
        encoded = self.encoded
        source, lengths = _padded((encoded.sources[index] for index in indices), PAD)
        labels, _ = _padded((encoded.targets[index] for index in indices), IGNORED)
        references = [encoded.references[index] for index in indices] if self._has_more else None
        return Batch(source, lengths, labels, torch.tensor(indices, dtype=torch.long), references)


def shard(batches: Iterable[Sequence[int]], rank: int, world: int) -> list[list[int]]:
    """The rows of each batch for one of several processes: ``rank``, ``rank + world``, ...

    Every process gets the same number of batches, some possibly empty. Each sentence goes to exactly one process.

    Example:
        >>> shard([[3, 1, 4], [5]], rank=1, world=2)
        [[1], []]
    """
    return [list(batch[rank::world]) for batch in batches]


def _lengths(sentences: list[list[int]]) -> npt.NDArray[np.int32]:
    return np.fromiter(map(len, sentences), np.int32, len(sentences))


def _permutation(random: np.random.Generator, count: int) -> Order:
    """A permutation from uniform numbers, whose stream is the same in all versions of NumPy."""
    return np.argsort(random.random(count), kind="stable")


def _cut(lengths: Order, size: int, most: int) -> list[int]:
    """Ends of batches: at most ``most`` sentences, and ``size`` as sentences times longest length, or one sentence."""
    ends: list[int] = []
    held = longest = 0
    for place, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if held and (held == most or longest * (held + 1) > size):
            ends.append(place)
            held, longest = 0, length
        held += 1
    return [*ends, len(lengths)] if held else ends


def _batches(order: Order, ends: list[int]) -> list[list[int]]:
    """The indices between neighbouring ``ends``."""
    indices: list[int] = order.tolist()
    return [indices[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _padded(sentences: Iterable[list[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Padded ids (B, T), each ended by EOS, and their lengths; (0, 1) without sentences."""
    rows = [[*sentence, EOS] for sentence in sentences]
    lengths = [len(row) for row in rows]
    longest = max(lengths, default=1)
    padded = [row + [padding] * (longest - len(row)) for row in rows]
    return torch.tensor(padded, dtype=torch.long).view(len(rows), longest), torch.tensor(lengths, dtype=torch.long)
