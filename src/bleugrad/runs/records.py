"""Measurements as JSON lines: one record a line, appended as they come."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class RecordWriter:
    """Appends records to a file, a whole line at a time, so that an interrupted run leaves a readable file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record. NaN and infinities are errors: JSON has none."""
        self._file.write((json.dumps(record, allow_nan=False) + "\n").encode("utf-8"))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a file; a last line cut off by a crash is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]
