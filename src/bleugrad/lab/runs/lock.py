"""The lock of a run directory: one process at a time writes to it."""

import contextlib
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bleugrad.lab.errors import FailureError
from bleugrad.lab.runs.interruption import interruptible

LOCK = ".lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a run directory. If another process holds it, raise and change nothing.

    The directory is created if needed, and removed at the end if it is empty. The lock ends with the process. Systems
    and file systems without file locks have none. Signals are interrupts meanwhile: see :func:`interruptible`.
    """
    if directory.exists() and not directory.is_dir():
        raise FailureError(f"{directory} is a file; expected a directory, or nothing, there")
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    path = directory / LOCK
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = _take(path)
    except OSError as error:
        raise FailureError(f"cannot write the run to {directory}: {error.strerror}") from None
    with interruptible():
        try:
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()} {platform.node()}".encode())
            yield
        finally:
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(handle)
            with contextlib.suppress(OSError):
                for folder in made:
                    folder.rmdir()


@contextmanager
def waiting_for(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that several processes fill; the others wait. No file is left behind.

    Systems and file systems without file locks have none.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _take(path: Path) -> int:
    """A locked handle of the lock file; retry if the last holder removed the file meanwhile."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(handle, path)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid, _, host = os.read(handle, 1000).decode(errors="replace").partition(" ")
        holder = f"process {pid} on {host}" if host else "another process"
        raise FailureError(
            f"{path.parent} is in use by {holder}; wait for its end, or choose another directory with --output"
        ) from None
    except OSError:  # this file system has no locks
        return
