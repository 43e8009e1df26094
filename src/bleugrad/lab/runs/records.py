"""Measurements as JSON lines, one record per line."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bleugrad.lab.errors import FailureError


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
