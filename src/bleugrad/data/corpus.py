"""Parallel text in memory: a split is its sentence pairs, a corpus its splits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bleugrad.errors import UsageError


@dataclass(frozen=True)
class Split:
    """Sentence pairs, in the order of the files.

    Attributes:
        sources: one sentence an item.
        references: the translations of each, at least one; the first is the target trained on.
    """

    sources: list[str]
    references: list[tuple[str, ...]]

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.references):
            raise ValueError(
                f"sources has {len(self.sources)} sentences and references has {len(self.references)}; expected as many"
            )

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def targets(self) -> list[str]:
        """The first reference of each sentence."""
        return [references[0] for references in self.references]

    @property
    def most_references(self) -> int:
        """The largest number of references a sentence has; 0 where there is no sentence."""
        return max(map(len, self.references), default=0)


@dataclass(frozen=True)
class Corpus:
    """Training, validation and test text, ready for use: training pairs are filtered already.

    Attributes:
        name: of the corpus.
        train: the pairs that passed the filters.
        valid: every pair of the file.
        test: every pair of the file.
        others: further splits by name, such as another test set.
        dropped: how many training pairs the filters took out, by reason.
        origin: where it came from, in words.
    """

    name: str
    train: Split
    valid: Split
    test: Split
    others: Mapping[str, Split] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    origin: str = ""

    def split(self, name: str) -> Split:
        """The split of this name."""
        splits = {"train": self.train, "valid": self.valid, "test": self.test, **self.others}
        if name not in splits:
            raise UsageError(f"split is {name!r}; expected one of {', '.join(splits)}")
        return splits[name]
