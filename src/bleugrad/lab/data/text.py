"""Text files, plain or gzip, one sentence per line; errors name the line."""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count, zip_longest
from pathlib import Path
from typing import BinaryIO, cast

from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.limits import ALWAYS_EXPANDED, EXPANSION, MOST_BYTES, MOST_CHARACTERS, MOST_WORDS
from bleugrad.lab.errors import FailureError, UsageError

GZIP_MAGIC = b"\x1f\x8b"


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, without line ends: those of :func:`iterate_lines`."""
    return list(iterate_lines(path))


def iterate_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without line ends, one after the other: the file is never in memory as a whole.

    Only a newline ends a line, so that line numbers agree with other tools. A carriage return before it and a byte
    order mark at the start are removed.
    """
    with _reading(Path(path)) as (file, most, shown):
        size = 0
        for number in count(1):
            line = file.readline(most + 1 - size)
            size += len(line)
            if size > most:
                raise too_large(shown, most)
            if not line:
                return
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                found = f"byte {error.start + 1} is 0x{line[error.start]:02x}, which is not UTF-8"
                raise FailureError(f"{path}, line {number}: {found}; expected UTF-8 text") from None
            yield (text.removeprefix("\ufeff") if number == 1 else text).removesuffix("\n").removesuffix("\r")


def iterate_pairs(source: Path, target: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The sentences of a file with their translations in another; different numbers of lines are an error at the end.

    Tabs separate several translations; empty ones are ignored.
    """
    lines = others = 0
    for one, other in zip_longest(iterate_lines(source), iterate_lines(target)):
        lines, others = lines + (one is not None), others + (other is not None)
        if one is not None and other is not None:
            yield one, _translations(other)
    if lines != others:
        raise FailureError(f"{source} has {lines} lines and {target} has {others}; expected one pair per line")


def _translations(line: str) -> tuple[str, ...]:
    if "\t" not in line:
        return (line,)
    return tuple(part for part in line.split("\t") if part.strip()) or ("",)


def read_split(source: Path, target: Path, references: Path | None = None) -> Split:
    """The sentence pairs of two files, as by :func:`iterate_pairs`.

    ``references`` is a file with further translations; the target stays first.
    """
    pairs = list(iterate_pairs(source, target))
    if references is not None:
        more = [choices for _, choices in iterate_pairs(source, references)]
        both = [(one, dict.fromkeys(first + other)) for (one, first), other in zip(pairs, more, strict=True)]
        pairs = [(one, tuple(filter(None, choices)) or ("",)) for one, choices in both]
    return Split([one for one, _ in pairs], [choices for _, choices in pairs])


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
