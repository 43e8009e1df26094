"""Text files, plain or gzip, one sentence per line; errors name the line."""

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import BinaryIO, cast

from bleugrad.lab.data.checksums import CHUNK
from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.limits import ALWAYS_EXPANDED, EXPANSION, MOST_BYTES, MOST_CHARACTERS, MOST_WORDS
from bleugrad.lab.errors import FailureError, UsageError

GZIP_MAGIC = b"\x1f\x8b"


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, without line ends.

    Only a newline ends a line, so that line numbers agree with other tools. A carriage return before it and a byte
    order mark at the start are removed.
    """
    content = _content(Path(path))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        raise _not_utf8(path, line, column, content[error.start]) from None
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def iterate_lines(path: Path) -> Iterator[str]:
    """The lines of :func:`read_lines`, one after the other: the file is never in memory as a whole."""
    with _reading(Path(path)) as (file, most, shown):
        size = 0
        for number, line in enumerate(file, start=1):
            size += len(line)
            if size > most:
                raise _too_large(shown, most)
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise _not_utf8(path, number, error.start + 1, line[error.start]) from None
            yield (text.removeprefix("\ufeff") if number == 1 else text).removesuffix("\n").removesuffix("\r")


def iterate_pairs(source: Path, target: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The pairs of :func:`read_split`, one after the other; files of different lengths are an error at the end."""
    counts = [0, 0]
    for one, other in zip_longest(iterate_lines(source), iterate_lines(target)):
        counts = [counts[0] + (one is not None), counts[1] + (other is not None)]
        if one is not None and other is not None:
            yield one, _references(other)
    if counts[0] != counts[1]:
        raise _unequal(source, counts[0], target, counts[1])


def read_split(source: Path, target: Path, references: Path | None = None) -> Split:
    """The sentence pairs of two files with the same number of lines.

    Args:
        source: one sentence per line.
        target: its translations, separated by tabs.
        references: further translations, separated by tabs; the target stays first.
    """
    sources, targets = read_lines(source), read_lines(target)
    _check_counts(source, sources, target, targets)
    parted = [_references(line) for line in targets]
    if references is not None:
        more = read_lines(references)
        _check_counts(source, sources, references, more)
        parted = [tuple(dict.fromkeys(one + _references(line))) for one, line in zip(parted, more, strict=True)]
        parted = [tuple(filter(None, one)) or ("",) for one in parted]
    return Split(sources, parted)


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


def _references(line: str) -> tuple[str, ...]:
    """The translations of a line; empty ones are ignored."""
    if "\t" not in line:
        return (line,)
    return tuple(part for part in line.split("\t") if part.strip()) or ("",)


def read_at_most(file: BinaryIO, most: int, path: Path | str) -> bytearray:
    """Read a file in chunks; raise if it has more than ``most`` bytes."""
    content = bytearray()
    while chunk := file.read(CHUNK):
        content += chunk
        if len(content) > most:
            raise _too_large(path, most)
    return content


def _content(path: Path) -> bytearray:
    with _reading(path) as (file, most, shown):
        return read_at_most(file, most, shown)


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


def _too_large(path: Path | str, most: int) -> FailureError:
    return FailureError(f"{path} holds more than {most} bytes of text; expected at most that: split the file")


def _not_utf8(path: Path, line: int, column: int, found: int) -> FailureError:
    return FailureError(f"{path}, line {line}: byte {column} is 0x{found:02x}, which is not UTF-8; expected UTF-8 text")


def _check_counts(source: Path, sources: Sequence[str], target: Path, targets: Sequence[str]) -> None:
    if len(sources) != len(targets):
        raise _unequal(source, len(sources), target, len(targets))


def _unequal(source: Path, lines: int, target: Path, others: int) -> FailureError:
    return FailureError(f"{source} has {lines} lines and {target} has {others}; expected one pair per line")
