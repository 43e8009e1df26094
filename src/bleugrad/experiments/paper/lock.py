"""A directory that one process at a time may write to."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bleugrad.errors import FailureError


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the directory, which is made if there is none; another process that holds it is an error.

    The lock goes with the process, however it ends. Where the system knows no such locks there is none.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    if directory.exists() and not directory.is_dir():
        raise FailureError(f"{directory} is a file; expected a directory, or nothing, there")
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise FailureError(f"another process is at work in {directory}; wait for its end, or end it") from None
    try:
        yield
    finally:
        os.close(handle)
