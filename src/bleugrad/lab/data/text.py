"""Text files, plain or gzip, one sentence per line; errors name the line."""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.limits import ALWAYS_EXPANDED, EXPANSION, MOST_BYTES, MOST_CHARACTERS, MOST_WORDS
from bleugrad.lab.errors import FailureError, UsageError

GZIP_MAGIC = b"\x1f\x8b"


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, without line ends.

    Only a newline ends a line, so that line numbers agree with other tools. A carriage return before it and a byte
    order mark at the start are removed.
    """
    lines: list[str] = []
    with _reading(Path(path)) as (file, most, shown):
        size = 0
        while line := file.readline(most + 1 - size):
            size += len(line)
            if size > most:
                raise too_large(shown, most)
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                found = f"byte {error.start + 1} is 0x{line[error.start]:02x}, which is not UTF-8"
                raise FailureError(f"{path}, line {len(lines) + 1}: {found}; expected UTF-8 text") from None
            lines.append((text if lines else text.removeprefix("\ufeff")).removesuffix("\n").removesuffix("\r"))
    return lines


def read_split(source: Path, target: Path, references: Path | None = None) -> Split:
    """The sentence pairs of two files.

    Tabs separate several translations; empty ones are ignored. ``references`` is a file with further translations; the
    target stays first.
    """
    sources = read_lines(source)
    choices = _read_translations(source, len(sources), target)
    if references is not None:
        more = _read_translations(source, len(sources), references)
        both = (dict.fromkeys(first + other) for first, other in zip(choices, more, strict=True))
        choices = [tuple(filter(None, each)) or ("",) for each in both]
    return Split(sources, choices)


def _read_translations(source: Path, number: int, target: Path) -> list[tuple[str, ...]]:
    """The translations in each line of a file, which must have as many lines as the source."""
    lines = read_lines(target)
    if len(lines) != number:
        raise FailureError(f"{source} has {number} lines and {target} has {len(lines)}; expected one pair per line")
    parts = ([part for part in line.split("\t") if part.strip()] if "\t" in line else [line] for line in lines)
    return [tuple(each) or ("",) for each in parts]


def check_scored(split: Split, source: Path | str, target: Path | str) -> None:
    """Raise for the first line that cannot be scored: an empty target or an overlong line."""
    for number, (text, references) in enumerate(zip(split.sources, split.references, strict=True), start=1):
        if not references[0].strip():
            raise FailureError(f"{target}, line {number}: the line is empty; expected a translation to score against")
        for path, line in chain([(source, text)], ((target, one) for one in references)):
            if len(line) > MOST_WORDS and (len(line) > MOST_CHARACTERS or len(line.split()) > MOST_WORDS):
                raise FailureError(
                    f"{path}, line {number} has {len(line.split())} words and {len(line)} characters; expected at most "
                    f"{MOST_WORDS} and {MOST_CHARACTERS}: split the line into sentences, or remove it on both sides"
                )


@contextmanager
def _reading(path: Path) -> Iterator[tuple[BinaryIO, int, str]]:
    """A file, expanded if it is gzip, the largest number of bytes it may have, and its name in messages."""
    try:
        with path.open("rb") as file:
            if file.peek(2).startswith(GZIP_MAGIC):
                most = min(MOST_BYTES, max(ALWAYS_EXPANDED, EXPANSION * os.fstat(file.fileno()).st_size))
                yield cast(BinaryIO, gzip.GzipFile(fileobj=file)), most, f"{path}, expanded,"
                return
            if path.suffix == ".gz":
                raise FailureError(f"{path} is not a gzip file; expected one, or a name without .gz")
            yield file, MOST_BYTES, str(path)
    except EOFError:
        raise FailureError(f"{path} is truncated; download or copy it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FailureError(f"{path} is a damaged gzip file: {error}; download or copy it again") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def too_large(path: Path | str, most: int) -> FailureError:
    """The error for a file of more than ``most`` bytes."""
    return FailureError(f"{path} holds more than {most} bytes of text; expected at most that: split the file")
