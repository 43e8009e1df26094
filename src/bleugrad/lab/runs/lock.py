"""Locks of folders, by the library ``filelock``: one process at a time writes to a run, and one fills a cache.

A lock ends with its process. File systems without file locks have none.
"""

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bleugrad.lab.errors import FailureError
from bleugrad.lab.extras import require_extra
from bleugrad.lab.runs.interruption import interruptible

LOCK = ".lock"
SECONDS_TO_WAIT = 0.2
"""Time for a holder that is about to end: it removes the lock file."""
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a run directory. If another process holds it, raise and change nothing.

    The directory is created if needed, and removed at the end if it is empty. While the lock is held, signals
    raise ``KeyboardInterrupt``: see :func:`interruptible`.
    """
    if directory.exists() and not directory.is_dir():
        raise FailureError(f"{directory} is a file; expected a directory, or nothing, there")
    path = directory / LOCK
    with interruptible(), ExitStack() as stack:
        stack.callback(_remove_empty, [folder for folder in (directory, *directory.parents) if not folder.exists()])
        try:
            directory.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_held(path, SECONDS_TO_WAIT))
            path.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
        except TimeoutError:
            raise FailureError(
                f"{directory} is in use by {_holder(path)}; wait for its end, or choose another directory with --output"
            ) from None
        except OSError as error:
            raise FailureError(f"cannot write the run to {directory}: {error.strerror}") from None
        yield


@contextmanager
def waiting_for(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that several processes fill; the others wait. No file is left behind."""
    with _held(folder / LOCK, -1):
        yield


@contextmanager
def _held(path: Path, seconds: float) -> Iterator[None]:
    """Hold a lock, and remove its file at the end; raise ``TimeoutError`` after ``seconds`` (-1: no limit)."""
    require_extra("translation", "filelock", "writing a run")
    from filelock import FileLock

    lock = FileLock(path, timeout=seconds, fallback_to_soft=False)
    try:
        lock.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        lock.release()


def _holder(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace") or "another process"
    return "another process"


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
