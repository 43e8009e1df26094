"""From settings to a corpus in memory: find or download it, then read, check and filter it."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from bleugrad.lab.data.builtin import builtin_splits
from bleugrad.lab.data.checksums import verify_sums
from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.corpus import Corpus, Split, filter_split
from bleugrad.lab.data.limits import MOST_WORDS
from bleugrad.lab.data.locations import SPLITS, corpus_folder, find_text
from bleugrad.lab.data.text import check_scored, read_split
from bleugrad.lab.errors import FailureError, UsageError

NOTHING = Split([], [])


def prepare(config: DataConfig, only: Collection[str] | None = None) -> Corpus:
    """The corpus of the settings; with ``only``, the other splits are neither verified nor read, and empty.

    A missing named corpus is downloaded. Training pairs are filtered and limited to ``train_limit``; validation and
    test keep every line, and a line over the length limit is an error.
    """
    corpus = _unfiltered(config, only)
    train, dropped = filter_split(corpus.train, config.max_length or MOST_WORDS, config.max_ratio)
    if config.train_limit:
        train = Split(train.sources[: config.train_limit], train.references[: config.train_limit])
    return replace(corpus, train=train, dropped=dropped)


def prepare_split(config: DataConfig, name: str) -> Split:
    """One split of the corpus; the others are not read."""
    return prepare(config, (name,)).split(name)


def _unfiltered(config: DataConfig, only: Collection[str] | None) -> Corpus:
    """The text of the settings. Files that are given one by one replace those of the folder."""
    if config.corpus == "builtin":
        splits = builtin_splits(config.builtin_train, config.builtin_valid, config.builtin_test)
        return Corpus("builtin", *splits, origin="part of the package")
    folder, languages = _folder(config), (config.source_language, config.target_language)
    if folder is not None:
        verify_sums(folder, only)
    found = dict.fromkeys(SPLITS, NOTHING)
    for split in SPLITS:
        source, target = (getattr(config, f"{split}_{side}") for side in ("source", "target"))
        if bool(source) != bool(target):
            raise UsageError(f"only one side of {split} is given; expected both {split}_source and {split}_target")
        if only is not None and split not in only:
            continue
        if source:
            found[split] = _read(config, split, Path(source), Path(target))
        elif folder is not None:
            has_no_test = not any(find_text(folder, f"test.{language}") for language in languages)
            if not (config.corpus == "files" and split == "test" and has_no_test):  # optional in a folder of the user
                found[split] = _read_folder(config, folder, split)
    others = {}
    if folder is not None:
        wanted = _other_splits(folder, *languages)
        others = {one: _read_folder(config, folder, one) if only is None or one in only else NOTHING for one in wanted}
    origin = "given files" if folder is None else str(folder)
    return Corpus(config.corpus, found["train"], found["valid"], found["test"], others, origin=origin)


def _folder(config: DataConfig) -> Path | None:
    """The folder of the corpus, which is downloaded if necessary; None if all files are given one by one."""
    folder = corpus_folder(config)
    if config.corpus == "files":
        if folder is not None and not folder.is_dir():
            found = f"directory is {config.directory!r}, which is not a folder"
            raise UsageError(f"{found}; expected the folder of the splits")
    elif folder is None:
        from bleugrad.lab.data.named.fetching import fetch

        folder = fetch(config)
    return folder


def _other_splits(folder: Path, source: str, target: str) -> list[str]:
    """The names of further splits of the folder with both languages, such as ``newstest2017``."""
    names = {path.name.removesuffix(".gz") for path in folder.iterdir() if path.is_file()}
    splits = {name.removesuffix(f".{source}") for name in names if name.endswith(f".{source}")} - {*SPLITS, "vocab"}
    return sorted(split for split in splits if f"{split}.{target}" in names and not split.endswith(".refs"))


def _read_folder(config: DataConfig, folder: Path, split: str) -> Split:
    """A split of a folder, with further references for validation and test if there are any."""
    paths = []
    for name in (f"{split}.{config.source_language}", f"{split}.{config.target_language}"):
        path = find_text(folder, name)
        if path is None:
            raise FailureError(f"{folder} has no {name}.gz and no {name}; expected one of them")
        paths.append(path)
    references = None if split == "train" else find_text(folder, f"{split}.refs.{config.target_language}")
    return _read(config, split, paths[0], paths[1], references)


def _read(config: DataConfig, split: str, source: Path, target: Path, references: Path | None = None) -> Split:
    """The pairs of two files. Validation and test text must not have empty or overlong lines."""
    pairs = read_split(source, target, references)
    if split != "train" and not split.startswith("train_"):
        check_scored(pairs, source, target)
    if config.lowercase:
        lowered = [tuple(text.lower() for text in choices) for choices in pairs.references]
        pairs = Split([text.lower() for text in pairs.sources], lowered)
    return pairs
