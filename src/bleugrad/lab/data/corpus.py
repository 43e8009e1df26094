"""Parallel text in memory, and filters of training pairs: empty, too long, or of too different lengths."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bleugrad.lab.data.limits import CHARACTERS_PER_WORD, MOST_WORDS
from bleugrad.lab.errors import UsageError

EMPTY, LONG, RATIO = "empty", "too long", "ratio"


@dataclass(frozen=True)
class Split:
    """Sentence pairs, in the order of the files.

    Each source has at least one reference; the first is the training target.
    """

    sources: list[str]
    references: list[tuple[str, ...]]

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.references):
            found = f"sources has {len(self.sources)} sentences, references has {len(self.references)}"
            raise ValueError(f"{found}; expected equal numbers")

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def targets(self) -> list[str]:
        """The first reference of each sentence."""
        return [references[0] for references in self.references]

    @property
    def most_references(self) -> int:
        """Maximum number of references per sentence; 0 without sentences."""
        return max(map(len, self.references), default=0)


@dataclass(frozen=True)
class Corpus:
    """Training text that passed the filters, and all validation and test text."""

    name: str
    train: Split
    valid: Split
    test: Split
    others: Mapping[str, Split] = field(default_factory=dict)  # by name, such as another test set
    dropped: Mapping[str, int] = field(default_factory=dict)  # number of dropped training pairs, by reason
    origin: str = ""  # where the text comes from

    @property
    def splits(self) -> Mapping[str, Split]:
        """All splits by name."""
        return {"train": self.train, "valid": self.valid, "test": self.test, **self.others}

    def split(self, name: str) -> Split:
        """The split of this name."""
        if name not in self.splits:
            raise UsageError(f"split is {name!r}; expected one of {', '.join(self.splits)}")
        return self.splits[name]

    def sizes(self) -> str:
        """The number of pairs of each split, and of training pairs dropped for each reason, as text."""
        sizes = ", ".join(f"{name} {len(split):,}" for name, split in self.splits.items() if len(split))
        dropped = ", ".join(f"{number:,} {reason}" for reason, number in self.dropped.items() if number)
        return f"{sizes} pairs{f' (dropped: {dropped})' if dropped else ''}"


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
