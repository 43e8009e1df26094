"""Text files, plain or gzip, one sentence a line; what is wrong with one is said with its line number."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

from bleugrad.data.corpus import Split
from bleugrad.errors import FailureError, UsageError

GZIP_MAGIC = b"\x1f\x8b"


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, without their ends. A last line need not be ended.

    Only the newline ends a line, so that line numbers are those of other tools; a carriage return before it and a
    byte order mark at the start are left out.
    """
    content = _content(Path(path))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        found = content[error.start]
        raise FailureError(
            f"{path}, line {line}: byte {column} is 0x{found:02x}, which is not UTF-8; expected UTF-8 text"
        ) from None
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def read_split(source: Path, target: Path, references: Path | None = None) -> Split:
    """The sentence pairs of two files of equally many lines.

    Args:
        source: one sentence a line.
        target: its translation in the same line; several are separated by tabs.
        references: further translations, separated by tabs; the target stays the first.
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


def check_targets(split: Split, target: Path | str) -> None:
    """Raise for the first empty target: nothing can be scored against it."""
    for number, references in enumerate(split.references, start=1):
        if not references[0].strip():
            raise FailureError(f"{target}, line {number}: the line is empty; expected a translation to score against")


def _references(line: str) -> tuple[str, ...]:
    """The translations of a line; an empty one among others says nothing."""
    if "\t" not in line:
        return (line,)
    return tuple(part for part in line.split("\t") if part.strip()) or ("",)


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if not content.startswith(GZIP_MAGIC):
        if path.suffix == ".gz":
            raise FailureError(f"{path} is not gzip, as its name says it is; expected a .gz file or another name")
        return content
    try:
        return gzip.decompress(content)
    except EOFError:
        raise FailureError(f"{path} ends early: the gzip file is cut off; fetch or copy it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FailureError(f"{path} is a damaged gzip file: {error}; fetch or copy it again") from None


def _check_counts(source: Path, sources: Sequence[str], target: Path, targets: Sequence[str]) -> None:
    if len(sources) != len(targets):
        raise FailureError(
            f"{source} has {len(sources)} lines and {target} has {len(targets)}; expected as many, one pair a line"
        )
