"""Weighted choices, identical on every platform and Python version.

Only ``random.Random(seed).random()`` is used: Python guarantees its values.
"""

from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from random import Random
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Weighted(Generic[T]):
    """Options with odds."""

    __slots__ = ("cumulative", "options")

    def __init__(self, options: Sequence[T], weights: Sequence[float]) -> None:
        self.options = tuple(options)
        self.cumulative = tuple(accumulate(weights))

    @classmethod
    def zipf(cls, options: Sequence[T]) -> "Weighted[T]":
        """Odds by rank, as for words (Zipf)."""
        return cls(options, [1 / (rank + 2) for rank in range(len(options))])


class Draws:
    """A seeded stream of decisions."""

    __slots__ = ("random",)

    def __init__(self, seed: int) -> None:
        self.random = Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random() < probability

    def pick(self, weighted: Weighted[T]) -> T:
        """One option by its odds."""
        cumulative = weighted.cumulative
        return weighted.options[bisect(cumulative, self.random() * cumulative[-1], 0, len(cumulative) - 1)]


class Choice(Generic[T]):
    """English alternatives with odds that depend on the register of the sentence."""

    __slots__ = ("formal", "plain")

    def __init__(self, options: Sequence[T], weights: Sequence[float], marks: Sequence[str]) -> None:
        formal = [weight * {"^": 3.0, "~": 0.125}.get(mark, 1.0) for weight, mark in zip(weights, marks, strict=True)]
        plain = [weight * {"^": 0.25}.get(mark, 1.0) for weight, mark in zip(weights, marks, strict=True)]
        self.plain = Weighted(options, plain)
        self.formal = Weighted(options, formal)


def read_choice(text: str, read: Callable[[str], T]) -> Choice[T]:
    """Alternatives such as ``buy 7 | purchase^ 3``.

    The number is the odds; ``^`` marks formal words, ``~`` colloquial ones, and ``-`` is an empty text.
    """
    options, weights, marks = [], [], []
    for alternative in text.split("|"):
        *words, last = alternative.split()
        if last.isdigit():
            weights.append(float(last))
        else:
            words.append(last)
            weights.append(1.0)
        phrase = " ".join(words)
        marks.append(phrase[-1] if phrase[-1] in "^~" else "")
        phrase = phrase.rstrip("^~")
        options.append(read("" if phrase == "-" else phrase))
    return Choice(options, weights, marks)


def words(text: str) -> Choice[str]:
    """Alternatives that are plain words; see :func:`read_choice`."""
    return read_choice(text, str)


class Voice:
    """A translator: draws the English alternatives of one sentence in one register."""

    __slots__ = ("chance", "draws", "formal")

    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self.chance = draws.chance
        self.formal = draws.chance(0.3)

    def say(self, choice: Choice[T]) -> T:
        """One alternative."""
        return self.draws.pick(choice.formal if self.formal else choice.plain)


class Translated(NamedTuple):
    """German text and its translation, which depends on the voice."""

    german: str
    english: Callable[[Voice], str]


def rows(table: str) -> Iterable[tuple[list[str], str]]:
    """Lines ``german columns = english`` of a table, as the columns and the English text."""
    for line in table.strip().splitlines():
        german, _, english = line.partition(" = ")
        yield german.split(), english
