"""Ids of sentences in files that are memory-mapped: only the pages that a batch needs are in memory."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

CHUNK = 1 << 20
"""Numbers read at once."""

END = np.dtype("<i8")


class MappedSentences:
    """Sentence i is ``ids[ends[i - 1] : ends[i]]``; both files hold little-endian numbers and nothing else."""

    def __init__(self, folder: Path, name: str, kind: np.dtype[Any]) -> None:
        self._ids, self._ends = _map(folder / f"{name}.ids", kind), _map(folder / f"{name}.ends", END)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, place: int) -> list[int]:
        first = int(self._ends[place - 1]) if place else 0
        found: list[int] = self._ids[first : int(self._ends[place])].tolist()
        return found

    @property
    def lengths(self) -> npt.NDArray[np.int32]:
        """The number of ids of each sentence."""
        found = np.empty(len(self), np.int32)
        for start in range(0, len(self), CHUNK):
            ends = np.asarray(self._ends[max(start - 1, 0) : start + CHUNK])
            found[start : start + CHUNK] = np.diff(ends, prepend=0) if start == 0 else np.diff(ends)
        return found


class MappedReferences:
    """The target of each sentence and its further references, which ``counts`` numbers from the first sentence on."""

    def __init__(self, targets: MappedSentences, others: MappedSentences, counts: Path) -> None:
        self._targets, self._others, self._counts = targets, others, _map(counts, END)

    def __len__(self) -> int:
        return len(self._targets)

    def __getitem__(self, place: int) -> list[list[int]]:
        first = int(self._counts[place - 1]) if place else 0
        more = range(first, int(self._counts[place]))
        return [self._targets[place], *(self._others[one] for one in more)]

    @property
    def has_more(self) -> bool:
        """Whether any sentence has several references."""
        return len(self._others) > 0


class SentenceWriter:
    """Appends sentences to the files of a :class:`MappedSentences`."""

    def __init__(self, folder: Path, name: str, kind: np.dtype[Any]) -> None:
        self._kind, self._end = kind, 0
        self._ids: BinaryIO = (folder / f"{name}.ids").open("wb")
        self._ends: BinaryIO = (folder / f"{name}.ends").open("wb")

    def write(self, sentences: Iterable[list[int]]) -> None:
        """Append sentences."""
        sentences = list(sentences)
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        self._ids.write(np.array([one for ids in sentences for one in ids], self._kind).tobytes())
        self._ends.write((self._end + np.cumsum(lengths)).astype(END).tobytes())
        self._end += int(lengths.sum())

    def close(self) -> None:
        """End both files."""
        self._ids.close()
        self._ends.close()


def check_sentences(folder: Path, name: str, kind: np.dtype[Any], vocabulary: int) -> int:
    """The number of sentences; raises a ValueError if an end or an id is out of range."""
    before = number = 0
    for ends in _chunks(folder / f"{name}.ends", END):
        if np.any(np.diff(ends, prepend=before) < 0):
            raise ValueError(f"the ends of {name} do not rise")
        before, number = int(ends[-1]), number + len(ends)
    total = 0
    for ids in _chunks(folder / f"{name}.ids", kind):
        if int(ids.max()) >= vocabulary:
            raise ValueError(f"{name} holds the id {int(ids.max())} of a vocabulary of {vocabulary}")
        total += len(ids)
    if total != before:
        raise ValueError(f"{name} holds {total} ids; expected {before}")
    return number


def id_kind(vocabulary: int) -> np.dtype[Any]:
    """The smallest numbers that hold the ids of a vocabulary."""
    return np.dtype("<u2") if vocabulary <= 1 << 16 else np.dtype("<u4")


def _map(path: Path, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    if path.stat().st_size == 0:  # cannot be mapped
        return np.empty(0, kind)
    return np.memmap(path, kind, "r")


def _chunks(path: Path, kind: np.dtype[Any]) -> Iterable[npt.NDArray[Any]]:
    """The numbers of a file, read and not mapped, so that they leave the memory again."""
    with path.open("rb") as file:
        while len(numbers := np.fromfile(file, kind, CHUNK)):
            yield numbers
