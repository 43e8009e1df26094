"""Atomic writes, complete or absent also after a power failure, and measurements as JSON lines."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bleugrad.lab.errors import FailureError


def write_bytes(path: Path, content: bytes) -> None:
    """Write a temporary file, sync it, rename it over the target, and sync the directory."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_text(path: Path, content: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, content.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically. NaN and infinities are errors: JSON has none."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """The value in a file; an error names the file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (ValueError, RecursionError, OSError) as error:
        raise FailureError(f"{path} cannot be read: {error}") from None


def sync_directory(path: Path) -> None:
    """Sync the names in a directory, if the system supports it."""
    with contextlib.suppress(OSError):  # the file is in place already
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class RecordWriter:
    """Appends records to a file, one whole line per write. An incomplete last line, left by a crash, is removed."""

    def __init__(self, path: Path) -> None:
        whole = path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0
        self._file = path.open("ab", buffering=0)
        self._file.truncate(whole)

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record. NaN and infinities are errors: JSON has none."""
        line = memoryview((json.dumps(record, allow_nan=False) + "\n").encode("utf-8"))
        with self._named_errors():
            while line:  # a full disk writes a part first, and then fails
                line = line[self._file.write(line) :]

    def flush(self) -> int:
        """Sync the file and return its size."""
        with self._named_errors():
            os.fsync(self._file.fileno())
            return os.fstat(self._file.fileno()).st_size

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Errors of the disk name the file."""
        try:
            yield
        except OSError as error:
            error.filename = str(self._file.name)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a file, without an incomplete last line."""
    records = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError):
            raise FailureError(f"{path} cannot be read: line {number} is damaged") from None
        if not isinstance(records[-1], dict):
            raise FailureError(f"{path} cannot be read: line {number} is no record")
    return records
