"""The files of a prepared corpus, written: gzip without a time stamp, so that equal text makes equal files."""

import gzip
import shutil
from collections.abc import Iterable
from pathlib import Path


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """One line each, as gzip."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
        for line in lines:
            file.write(line.encode("utf-8") + b"\n")


def compress(source: Path, target: Path) -> None:
    """The bytes of a file, as gzip."""
    with source.open("rb") as text, target.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
        shutil.copyfileobj(text, file, 1 << 20)
