"""Which sentence pairs are trained on: neither empty nor too long, nor of too different lengths."""

from collections.abc import Mapping

from bleugrad.data.corpus import Split
from bleugrad.data.limits import CHARACTERS_PER_WORD, MOST_WORDS

EMPTY, LONG, RATIO = "empty", "too long", "ratio"


def reason_to_drop(source_length: int, target_length: int, max_length: int, max_ratio: float) -> str | None:
    """Why a pair of these lengths, in words, is left out; None if it is kept.

    Args:
        source_length: words of the source.
        target_length: words of the target.
        max_length: the most words either may have; 0 for no limit.
        max_ratio: the most the longer may be, in lengths of the shorter; 0 for no limit.

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
    """Whether a pair of these lengths, in words, is trained on."""
    return reason_to_drop(source_length, target_length, max_length, max_ratio) is None


def filter_split(split: Split, max_length: int, max_ratio: float) -> tuple[Split, Mapping[str, int]]:
    """The pairs to train on, and how many were dropped for each reason.

    The target decides whether a pair stays; other references of the pair go by themselves. A line with far more
    characters than ``max_length`` words have is too long, too.
    """
    characters = CHARACTERS_PER_WORD * max(MOST_WORDS, max_length)

    def reason(source: str, target: str) -> str | None:
        if max(len(source), len(target)) > characters:
            return LONG
        return reason_to_drop(len(source.split()), len(target.split()), max_length, max_ratio)

    dropped = {EMPTY: 0, LONG: 0, RATIO: 0}
    sources, references = [], []
    for source, choices in zip(split.sources, split.references, strict=True):
        found = reason(source, choices[0])
        if found is not None:
            dropped[found] += 1
            continue
        sources.append(source)
        references.append((choices[0], *(one for one in choices[1:] if reason(source, one) is None)))
    return Split(sources, references), dropped
