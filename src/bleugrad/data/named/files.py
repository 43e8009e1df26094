"""The files of a prepared corpus, written: gzip without a time stamp, so that equal text makes equal files."""

import gzip
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """One line each, as gzip."""
    with _gzip(path) as file:
        for line in lines:
            file.write(line.encode("utf-8") + b"\n")


def compress(source: Path, target: Path) -> None:
    """The bytes of a file, as gzip."""
    with source.open("rb") as text, _gzip(target) as file:
        shutil.copyfileobj(text, file, 1 << 20)


@contextmanager
def _gzip(path: Path) -> Iterator[gzip.GzipFile]:
    """A new gzip file, which is on the disk at the end."""
    with path.open("wb") as raw:
        with gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
            yield file
        raw.flush()
        os.fsync(raw.fileno())
