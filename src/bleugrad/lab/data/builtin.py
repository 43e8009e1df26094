"""The built-in corpus: German-like sentences of an artificial grammar, with up to four English translations each.

``builtin.txt.bz2`` has one line per pair: the German sentence and its translations, separated by tabs. Blocks of test,
validation and training pairs follow one another, with an empty line between them. ``corpora/grammar`` in the repository
writes the file.
"""

import bz2
from pathlib import Path

from bleugrad.lab.data.corpus import Split

FILE = Path(__file__).with_name("builtin.txt.bz2")
LARGEST = {"train": 20000, "valid": 1000, "test": 1000}
"""The largest number of pairs per split."""


def builtin_splits(train: int, valid: int, test: int) -> tuple[Split, Split, Split]:
    """The training, validation and test split, with these numbers of pairs.

    No German sentence occurs in two splits, or twice in validation or test; short training sentences may repeat with
    other translations. A smaller test split is the beginning of a larger one, and so is a smaller training split if the
    sizes of the other two are equal. The text is in lower case, with spaces between the tokens.

    Example:
        >>> train, valid, test = builtin_splits(2, 1, 1)
        >>> print(test.sources[0])
        er kann am see arbeiten , aber eine frau hat den chef verstanden .
        >>> for reference in test.references[0]:
        ...     print(reference)
        he can work at the lake , but a woman understood the boss .
        he can work at the lake but a woman understood the boss .
        he can work at the lake , but a lady understood the boss .
        he can work by the lake but a woman understood the boss .
    """
    blocks = bz2.decompress(FILE.read_bytes()).decode().split("\n\n")
    splits: list[Split] = []
    for size, block in zip((test, valid, train), blocks, strict=True):
        taken = {source for split in splits for source in split.sources}
        pairs = [line.split("\t") for line in block.splitlines()]
        kept = [pair for pair in pairs if pair[0] not in taken][:size]
        splits.append(Split([source for source, *_ in kept], [tuple(references) for _, *references in kept]))
    return splits[2], splits[1], splits[0]
