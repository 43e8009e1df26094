"""Tatoeba German-English: pairs linked by their translators; no sentence occurs in two splits."""

import bz2
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from bleugrad.lab.data.checksums import CHUNK
from bleugrad.lab.data.corpus import reason_to_drop
from bleugrad.lab.data.limits import MOST_BYTES
from bleugrad.lab.data.locations import SPLITS, find_text
from bleugrad.lab.data.named.files import tokenise, write_lines
from bleugrad.lab.data.text import read_split
from bleugrad.lab.errors import FailureError

MAX_LENGTH, MAX_RATIO = 50, 9.0
HELD_OUT = 3000
LARGEST_HELD_OUT_FAMILY = 20
TINY_LENGTH, TINY_WORDS = 9, (1400, 1000)
TINY_PAIRS = {"train": 20000, "valid": 500, "test": 500}

Pair = tuple[str, str]


def prepare_tatoeba(downloads: Path, folder: Path) -> None:
    """Tokenise, drop empty and long pairs, and split by families of sentences."""
    pairs = dict.fromkeys(_linked_pairs(downloads))
    kept = [pair for pair in pairs if not reason_to_drop(_words(pair[0]), _words(pair[1]), MAX_LENGTH, MAX_RATIO)]
    for split, members in _split(kept).items():
        if split == "train":
            write_lines(folder / "train.de.gz", [german for german, _ in members])
            write_lines(folder / "train.en.gz", [english for _, english in members])
            continue
        translations = defaultdict(list)
        for german, english in members:
            translations[german].append(english)
        write_lines(folder / f"{split}.de.gz", translations)
        write_lines(folder / f"{split}.en.gz", [choices[0] for choices in translations.values()])
        write_lines(folder / f"{split}.refs.en.gz", ["\t".join(choices) for choices in translations.values()])


def prepare_tatoeba_tiny(tatoeba: Path, folder: Path) -> None:
    """Write the short pairs of the prepared corpus that use frequent words only."""
    parts = {split: _short_pairs(tatoeba, split) for split in SPLITS}
    frequent = []
    for side, most in enumerate(TINY_WORDS):
        counts = Counter(chain.from_iterable(pair[side].split() for pair in parts["train"]))
        frequent.append({word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]})
    for split, pairs in parts.items():
        known = [pair for pair in pairs if all(frequent[side].issuperset(pair[side].split()) for side in (0, 1))]
        for side, language in enumerate(("de", "en")):
            write_lines(folder / f"{split}.{language}.gz", [pair[side] for pair in known[: TINY_PAIRS[split]]])


def _short_pairs(tatoeba: Path, split: str) -> list[Pair]:
    german, english = (find_text(tatoeba, f"{split}.{language}") for language in ("de", "en"))
    if german is None or english is None:
        raise FailureError(f"{tatoeba} has no {split}.de.gz and {split}.en.gz; expected the prepared corpus")
    pairs = read_split(german, english)
    together = zip(pairs.sources, pairs.targets, strict=True)
    return [pair for pair in together if max(map(_words, pair)) <= TINY_LENGTH]


def _linked_pairs(downloads: Path) -> list[Pair]:
    """The pairs of the links file, tokenised and lowercased, in its order."""
    links = [(row[0], row[1]) for row in _rows(downloads / "deu-eng_links.tsv.bz2", 2)]
    sides = []
    for side, language, code in ((0, "de", "deu"), (1, "en", "eng")):
        wanted = {link[side] for link in links}
        texts = {row[0]: row[2] for row in _rows(downloads / f"{code}_sentences.tsv.bz2", 3) if row[0] in wanted}
        sides.append(dict(zip(texts, tokenise(texts.values(), language, escape=False), strict=True)))
    german, english = sides
    return [(german[left], english[right]) for left, right in links if left in german and right in english]


def _rows(path: Path, least: int) -> Iterator[list[str]]:
    """The rows of a table."""
    read = 0
    try:
        with bz2.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(iter(lambda: file.readline(CHUNK), ""), start=1):
                read += len(line)
                if read > MOST_BYTES:
                    raise FailureError(f"{path} holds more than {MOST_BYTES} characters; expected at most that")
                row = line.rstrip("\n").split("\t")
                if len(row) < least:
                    raise FailureError(f"{path}, line {number} has {len(row)} columns; expected at least {least}")
                yield row
    except (EOFError, OSError, UnicodeDecodeError) as error:
        raise FailureError(f"{path} cannot be read: {error}; remove it to download it again") from None


def _split(pairs: list[Pair]) -> dict[str, list[Pair]]:
    """Assign whole families to splits, in the order of a checksum of their text.

    A family is a connected component of links. Large families hold common phrases and go to training.
    """
    parts: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    families = sorted(_families(pairs), key=lambda family: hashlib.sha256("\n".join(min(family)).encode()).digest())
    held_out = {"test": 0, "valid": 0}
    most = min(HELD_OUT, len(families) // 20)
    for family in families:
        size = len({german for german, _ in family})
        place = next((split for split, count in held_out.items() if count + size <= most), "train")
        if place == "train" or len(family) > LARGEST_HELD_OUT_FAMILY:
            parts["train"] += family
            continue
        held_out[place] += size
        parts[place] += family
    return parts


def _families(pairs: list[Pair]) -> list[list[Pair]]:
    """The pairs, grouped by connected component of the graph of sentences."""
    parent: dict[tuple[int, str], tuple[int, str]] = {}

    def root(node: tuple[int, str]) -> tuple[int, str]:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for german, english in pairs:
        parent[root((0, german))] = root((1, english))
    families = defaultdict(list)
    for pair in pairs:
        families[root((0, pair[0]))].append(pair)
    return list(families.values())


def _words(text: str) -> int:
    return len(text.split())
