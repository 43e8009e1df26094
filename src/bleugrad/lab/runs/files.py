"""Atomic writes: a file is complete or absent, also after a power failure."""

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from bleugrad.lab.errors import FailureError


def write_bytes(path: Path, content: bytes) -> None:
    """Write a temporary file, sync it, rename it over the target, and sync the directory."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
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


def _umask() -> int:
    """The mode mask of new files. It can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
