"""Encoded training text on disk: made once, memory-mapped, shared by processes.

An entry is a folder whose name is a digest of everything that it depends on: the content of the source files, the
settings, and given vocabularies. It appears under its name complete or not at all. Before use its files are compared
with the checksums in its manifest; an entry that differs is made again. The text is never in memory as a whole.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bleugrad.lab.data.checksums import sha256
from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.encoding import EncodedSplit, vocabularies_of
from bleugrad.lab.data.filters import EMPTY, LONG, RATIO, filter_pairs
from bleugrad.lab.data.limits import MOST_WORDS
from bleugrad.lab.data.locations import roots
from bleugrad.lab.data.mapped import MappedReferences, MappedSentences, SentenceWriter, check_sentences, id_kind
from bleugrad.lab.data.preparation import prepare, train_files
from bleugrad.lab.data.text import iterate_pairs
from bleugrad.lab.data.vocabulary import Vocabulary, read_vocabulary
from bleugrad.lab.errors import FailureError
from bleugrad.lab.runs.files import sync_directory, write_json
from bleugrad.lab.runs.lock import waiting_for

FORMAT = 2
MANIFEST = "manifest.json"
AUTO, FOLDER = "auto", "encoded"
BATCH = 10000
"""Pairs encoded at once."""

IRRELEVANT = frozenset(
    {"directory", "cache", "batch_by", "batch_size", "train_source", "train_target"}
    | {f"{split}_{side}" for split in ("valid", "test") for side in ("source", "target")}
    | {"vocabulary_source", "vocabulary_target", "sentencepiece_source", "sentencepiece_target"}
)
"""Settings that do not change the ids, or that name files, whose content counts."""

Pair = tuple[str, tuple[str, ...]]
Sides = tuple[Vocabulary, Vocabulary]


@dataclass(frozen=True)
class CachedText:
    """Encoded training text with its vocabularies.

    ``key`` names the entry, and ``text`` is the digest of the text and the settings without the vocabularies.
    """

    encoded: EncodedSplit
    vocabularies: Sides
    dropped: Mapping[str, int]
    key: str
    text: str


def cached_train(config: DataConfig, given: Sides | None = None) -> CachedText:
    """The encoded training text of the settings, from the cache or made now; ``given`` vocabularies of another run."""
    root = roots()[-1].parent / FOLDER if config.cache == AUTO else Path(config.cache).expanduser()
    text = _text_key(config)
    key = text if given is None else _digest([text, *(one.to_json() for one in given)])
    try:
        root.mkdir(parents=True, exist_ok=True)
        with waiting_for(root):  # one process makes an entry, and the others then find it
            found = _open(root / text, text, text)
            if given is not None and (found is None or found.vocabularies != given):
                found = _open(root / key, key, text)
            if found is None:
                _build(root, key, config, given)
                found = _open(root / key, key, text)
    except OSError as error:
        reason = error.strerror or error
        raise FailureError(f"cannot use the cache {root}: {reason}; choose another folder with data.cache") from None
    if found is None:
        raise FailureError(f"the cache entry {root / key} was damaged while it was read; run the command again")
    return found


def _text_key(config: DataConfig) -> str:
    """The digest of everything that an entry with its own vocabularies depends on."""
    files = train_files(config)
    lists = (getattr(config, name) for name in sorted(IRRELEVANT) if name.startswith(("vocabulary_", "sentencepiece_")))
    content = {
        "format": FORMAT,
        "settings": {name: value for name, value in asdict(config).items() if name not in IRRELEVANT},
        "text": None if files is None else [sha256(path) for path in _existing(files)],
        "lists": [sha256(Path(one)) if one and Path(one).is_file() else one for one in lists],
    }
    return _digest(content)


def _digest(content: Any) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def _existing(files: tuple[Path, Path]) -> tuple[Path, Path]:
    for path in files:
        if not path.is_file():
            raise FailureError(f"cannot read {path}: no such file")
    return files


def _pairs(config: DataConfig, dropped: dict[str, int]) -> Iterator[Pair]:
    """The training pairs that pass the filters, one after the other."""
    files = train_files(config)
    if files is None:
        train = prepare(config).train
        yield from zip(train.sources, train.references, strict=True)
        return
    pairs: Iterable[Pair] = iterate_pairs(*files)
    if config.lowercase:
        pairs = ((source.lower(), tuple(one.lower() for one in choices)) for source, choices in pairs)
    kept = filter_pairs(pairs, config.max_length or MOST_WORDS, config.max_ratio, dropped)
    yield from islice(kept, config.train_limit or None)


def _build(root: Path, key: str, config: DataConfig, given: Sides | None) -> None:
    """Make an entry in a folder of its own, and rename that."""

    def side(of_pair: Callable[[Pair], Iterable[str]]) -> Callable[[], Iterable[str]]:
        return lambda: (line for pair in _pairs(config, {}) for line in of_pair(pair))

    vocabularies = given or vocabularies_of(side(lambda pair: pair[:1]), side(lambda pair: pair[1]), config)
    folder = Path(tempfile.mkdtemp(dir=root, prefix=f".{key}."))
    try:
        dropped = {EMPTY: 0, LONG: 0, RATIO: 0}
        _write(folder, _pairs(config, dropped), vocabularies)
        for name, one in zip(("source", "target"), vocabularies, strict=True):
            write_json(folder / f"vocabulary.{name}.json", one.to_json())
        names = sorted(path.name for path in folder.iterdir())
        sums = {name: sha256(folder / name) for name in names}
        write_json(folder / MANIFEST, {"format": FORMAT, "key": key, "dropped": dropped, "files": sums})
        if (root / key).exists():  # damaged
            shutil.rmtree(root / key)
        os.replace(folder, root / key)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    sync_directory(root)


def _write(folder: Path, pairs: Iterator[Pair], vocabularies: Sides) -> None:
    source, target = vocabularies
    kinds = id_kind(len(source)), id_kind(len(target))
    writers = [
        SentenceWriter(folder, name, kind)
        for name, kind in (("source", kinds[0]), ("target", kinds[1]), ("others", kinds[1]))
    ]
    more = 0
    with (folder / "others.counts").open("wb") as counts:
        while some := list(islice(pairs, BATCH)):
            writers[0].write(source.encode_lines([pair[0] for pair in some]))
            writers[1].write(target.encode_lines([pair[1][0] for pair in some]))
            writers[2].write(target.encode_lines([one for pair in some for one in pair[1][1:]]))
            numbers = np.cumsum([len(pair[1]) - 1 for pair in some]) + more
            counts.write(numbers.astype("<i8").tobytes())
            more = int(numbers[-1])
    for writer in writers:
        writer.close()


def _open(folder: Path, key: str, text: str) -> CachedText | None:
    """The entry in a folder; None if there is none, or if it is damaged."""
    if not folder.is_dir():
        return None
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if (manifest["format"], manifest["key"]) != (FORMAT, key):
            return None
        if any(sha256(folder / name) != expected for name, expected in manifest["files"].items()):
            return None
        return _read(folder, key, text, manifest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _read(folder: Path, key: str, text: str, manifest: Mapping[str, Any]) -> CachedText:
    saved = [json.loads((folder / f"vocabulary.{name}.json").read_text("utf-8")) for name in ("source", "target")]
    source, target = (read_vocabulary(one) for one in saved)
    kinds = id_kind(len(source)), id_kind(len(target))
    numbers = [
        check_sentences(folder, "source", kinds[0], len(source)),
        check_sentences(folder, "target", kinds[1], len(target)),
    ]
    check_sentences(folder, "others", kinds[1], len(target))
    if numbers[0] != numbers[1]:
        raise ValueError("the sides differ")
    targets = MappedSentences(folder, "target", kinds[1])
    references = MappedReferences(targets, MappedSentences(folder, "others", kinds[1]), folder / "others.counts")
    encoded = EncodedSplit(MappedSentences(folder, "source", kinds[0]), targets, references)
    return CachedText(encoded, (source, target), dict(manifest["dropped"]), key, text)
