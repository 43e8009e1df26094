"""From settings to a corpus in memory: find or download it, then read, check and filter it."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from bleugrad.lab.data.builtin import builtin_splits
from bleugrad.lab.data.checksums import verify_sums
from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.corpus import Corpus, Split
from bleugrad.lab.data.filters import filter_split
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
    if config.lowercase:
        corpus = _lowercase(corpus)
    train, dropped = filter_split(corpus.train, config.max_length or MOST_WORDS, config.max_ratio)
    if config.train_limit:
        train = Split(train.sources[: config.train_limit], train.references[: config.train_limit])
    return replace(corpus, train=train, dropped=dropped)


def prepare_split(config: DataConfig, name: str) -> Split:
    """One split of the corpus; the others are not read."""
    return prepare(config, (name,)).split(name)


def train_files(config: DataConfig) -> tuple[Path, Path] | None:
    """The files of the training text, source and target; None for the built-in corpus."""
    if config.corpus == "builtin":
        return None
    if config.train_source and config.train_target:
        return Path(config.train_source), Path(config.train_target)
    folder = Path(config.directory).expanduser() if config.corpus == "files" else _named_folder(config)
    verify_sums(folder, ("train",))
    source, target = (_find(folder, "train", language) for language in (config.source_language, config.target_language))
    return source, target


def _named_folder(config: DataConfig) -> Path:
    folder = corpus_folder(config)
    if folder is None:
        from bleugrad.lab.data.named.fetching import fetch

        folder = fetch(config)
    return folder


def _unfiltered(config: DataConfig, only: Collection[str] | None) -> Corpus:
    if config.corpus == "builtin":
        splits = builtin_splits(config.builtin_train, config.builtin_valid, config.builtin_test)
        return Corpus("builtin", *splits, origin="part of the package")
    if config.corpus == "files":
        return _files(config, only)
    folder = _named_folder(config)
    verify_sums(folder, only)
    languages = config.source_language, config.target_language
    train, valid, test = (_wanted(folder, split, languages, only) for split in SPLITS)
    return Corpus(config.corpus, train, valid, test, _others(folder, languages, only), origin=str(folder))


def _wanted(folder: Path, split: str, languages: tuple[str, str], only: Collection[str] | None) -> Split:
    return _read_split(folder, split, *languages) if only is None or split in only else NOTHING


def _files(config: DataConfig, only: Collection[str] | None) -> Corpus:
    """Files given one by one, or else files of the folder. The test set is optional."""
    folder = Path(config.directory).expanduser() if config.directory else None
    if folder is not None and not folder.is_dir():
        raise UsageError(f"directory is {config.directory!r}, which is not a folder; expected the folder of the splits")
    languages = config.source_language, config.target_language
    if folder is not None:
        verify_sums(folder, only)
    splits = dict.fromkeys(SPLITS, NOTHING)
    for split in SPLITS:
        source, target = (getattr(config, f"{split}_{side}") for side in ("source", "target"))
        if bool(source) != bool(target):
            raise UsageError(f"only one side of {split} is given; expected both {split}_source and {split}_target")
        if only is not None and split not in only:
            continue
        if source:
            splits[split] = _checked(split, Path(source), Path(target))
        elif folder is not None and (split != "test" or any(find_text(folder, f"test.{one}") for one in languages)):
            splits[split] = _read_split(folder, split, *languages)
    others = _others(folder, languages, only) if folder is not None else {}
    origin = "given files" if folder is None else str(folder)
    return Corpus("files", splits["train"], splits["valid"], splits["test"], others, origin=origin)


def _read_split(folder: Path, split: str, source: str, target: str) -> Split:
    """A split of a folder, with further references for validation and test if there are any."""
    references = None if split == "train" else find_text(folder, f"{split}.refs.{target}")
    return _checked(split, _find(folder, split, source), _find(folder, split, target), references)


def _find(folder: Path, split: str, language: str) -> Path:
    path = find_text(folder, f"{split}.{language}")
    if path is None:
        raise FailureError(f"{folder} has no {split}.{language}.gz and no {split}.{language}; expected one of them")
    return path


def _checked(split: str, source: Path, target: Path, references: Path | None = None) -> Split:
    """The pairs of two files. Validation and test text must not have empty or overlong lines."""
    pairs = read_split(source, target, references)
    if split != "train" and not split.startswith("train_"):
        check_scored(pairs, source, target)
    return pairs


def _others(folder: Path, languages: tuple[str, str], only: Collection[str] | None) -> dict[str, Split]:
    """Further splits of the folder with both languages, such as ``newstest2017``."""
    source, target = languages
    names = {path.name.removesuffix(".gz") for path in folder.iterdir() if path.is_file()}
    splits = {name.removesuffix(f".{source}") for name in names if name.endswith(f".{source}")} - {*SPLITS, "vocab"}
    both = sorted(split for split in splits if f"{split}.{target}" in names and not split.endswith(".refs"))
    return {split: _wanted(folder, split, languages, only) for split in both}


def _lowercase(corpus: Corpus) -> Corpus:
    def lower(split: Split) -> Split:
        return Split([s.lower() for s in split.sources], [tuple(r.lower() for r in rs) for rs in split.references])

    others = {name: lower(split) for name, split in corpus.others.items()}
    return replace(corpus, train=lower(corpus.train), valid=lower(corpus.valid), test=lower(corpus.test), others=others)
