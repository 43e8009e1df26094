"""Writes the files of a prepared corpus: gzip without time stamp, so that equal text gives equal files."""

import gzip
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines as gzip."""
    with _gzip(path) as file:
        for line in lines:
            file.write(line.encode("utf-8") + b"\n")


def compress(source: Path, target: Path) -> None:
    """Compress a file as gzip."""
    with source.open("rb") as text, _gzip(target) as file:
        shutil.copyfileobj(text, file, 1 << 20)


@contextmanager
def _gzip(path: Path) -> Iterator[gzip.GzipFile]:
    """A new gzip file, synced to disk at the end."""
    with path.open("wb") as raw:
        with gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
            yield file
        raw.flush()
        os.fsync(raw.fileno())
