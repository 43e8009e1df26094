"""Filters of training pairs: empty, too long, or of too different lengths."""

from collections.abc import Mapping

from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.limits import CHARACTERS_PER_WORD, MOST_WORDS

EMPTY, LONG, RATIO = "empty", "too long", "ratio"


def reason_to_drop(source_length: int, target_length: int, max_length: int, max_ratio: float) -> str | None:
    """The reason to drop a pair of these lengths in words; None if it is kept. A maximum of 0 is no limit.

    Example:
        >>> reason_to_drop(3, 0, 50, 9), reason_to_drop(51, 3, 50, 9), reason_to_drop(1, 10, 50, 9)
        ('empty', 'too long', 'ratio')
    """
    shorter, longer = sorted((source_length, target_length))
    if shorter == 0:
        return EMPTY
    if max_length and longer > max_length:
        return LONG
    if max_ratio and longer > max_ratio * shorter:
        return RATIO
    return None


def keep(source_length: int, target_length: int, max_length: int, max_ratio: float) -> bool:
    """Whether a pair of these lengths, in words, is kept."""
    return reason_to_drop(source_length, target_length, max_length, max_ratio) is None


def filter_split(split: Split, max_length: int, max_ratio: float) -> tuple[Split, Mapping[str, int]]:
    """The pairs that pass the filters, and the number of dropped pairs by reason.

    The first reference decides whether a pair is kept; other references are filtered one by one. A line with far more
    characters than ``max_length`` words usually have is also too long.
    """
    characters = CHARACTERS_PER_WORD * max(MOST_WORDS, max_length)
    dropped = {EMPTY: 0, LONG: 0, RATIO: 0}
    kept = Split([], [])

    def reason(source: str, target: str) -> str | None:
        if max(len(source), len(target)) > characters:
            return LONG
        return reason_to_drop(len(source.split()), len(target.split()), max_length, max_ratio)

    for source, (first, *others) in zip(split.sources, split.references, strict=True):
        if found := reason(source, first):
            dropped[found] += 1
            continue
        kept.sources.append(source)
        kept.references.append((first, *(one for one in others if reason(source, one) is None)))
    return kept, dropped
