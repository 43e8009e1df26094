"""The folders that are searched for corpora, and the layout of a prepared corpus.

A prepared corpus is a folder with one file per split and language, plain or gzip: ``train.de.gz``, ``train.en.gz``, ...
``test.refs.en.gz`` holds several references per line, separated by tabs.
"""

import os
from pathlib import Path

from bleugrad.lab.data.config import DataConfig

VARIABLE = "BLEUGRAD_DATA"
SPLITS = ("train", "valid", "test")


def roots(directory: str = "") -> list[Path]:
    """The folders that may hold corpora; new ones go to the first."""
    if directory:
        return [Path(directory).expanduser()]
    variable, base = os.environ.get(VARIABLE), os.environ.get("XDG_CACHE_HOME")
    cache = (Path(base) if base else Path.home() / ".cache") / "bleugrad" / "data"
    return [Path(variable).expanduser(), cache] if variable else [cache]


def find_text(folder: Path, name: str) -> Path | None:
    """The file of this name, gzip or plain, or None."""
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    return None


def is_prepared(folder: Path, source: str, target: str) -> bool:
    """Whether the folder holds all splits of both languages."""
    return all(find_text(folder, f"{split}.{language}") for split in SPLITS for language in (source, target))


def corpus_folder(config: DataConfig) -> Path | None:
    """The folder of a prepared corpus; None if there is none or the corpus needs none."""
    if config.corpus == "builtin":
        return None
    if config.corpus == "files":
        return Path(config.directory).expanduser() if config.directory else None
    for root in roots(config.directory):
        folder = root / config.corpus
        if is_prepared(folder, config.source_language, config.target_language):
            return folder
    return None
