"""Parallel text in memory: a corpus has splits, a split has sentence pairs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bleugrad.lab.errors import UsageError


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
    """Training text that passed the filters, and all validation and test text.

    Attributes:
        others: further splits by name, such as another test set.
        dropped: number of dropped training pairs, by reason.
        origin: where the text comes from.
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
