"""Where corpora are looked for on disk, and the layout of a prepared one.

A prepared corpus is a folder with train, valid and test, each once a language, plain or gzip: ``train.de.gz``,
``train.en.gz`` and so on. ``test.refs.en.gz`` holds several references a line, separated by tabs.
"""

import os
from pathlib import Path

from bleugrad.data.config import DataConfig

VARIABLE = "BLEUGRAD_DATA"
SPLITS = ("train", "valid", "test")


def cache_directory() -> Path:
    """The folder of corpora where neither setting nor variable names one."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "bleugrad" / "data"


def roots(directory: str = "") -> list[Path]:
    """The folders that may hold corpora, the first of which takes new ones."""
    if directory:
        return [Path(directory).expanduser()]
    variable = os.environ.get(VARIABLE)
    return [*([Path(variable).expanduser()] if variable else []), cache_directory()]


def find_text(folder: Path, name: str) -> Path | None:
    """The file of this name, gzip or plain, if there is one."""
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    return None


def is_prepared(folder: Path, source: str, target: str) -> bool:
    """Whether the folder holds all splits of both languages."""
    return all(find_text(folder, f"{split}.{language}") for split in SPLITS for language in (source, target))


def corpus_folder(config: DataConfig) -> Path | None:
    """The folder of a corpus that is prepared on this machine; None if there is none, or none is needed."""
    if config.corpus == "builtin":
        return None
    if config.corpus == "files":
        return Path(config.directory).expanduser() if config.directory else None
    for root in roots(config.directory):
        folder = root / config.corpus
        if is_prepared(folder, config.source_language, config.target_language):
            return folder
    return None
