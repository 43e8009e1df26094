"""Locks of folders, by the library ``filelock``: one process at a time writes to a run, and one fetches a corpus.

A lock ends with its process. File systems without file locks have none. While a run is locked, the first signal
interrupts the process as Ctrl-C does, and later ones do not disturb its cleanup.
"""

import errno
import os
import platform
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from bleugrad.lab.errors import FailureError
from bleugrad.lab.extras import require_extra

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
LOCK = ".lock"
SECONDS_TO_WAIT = 0.2
"""Time for a holder that is about to end: it removes the lock file."""
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class Terminated(KeyboardInterrupt):
    """A signal other than Ctrl-C ended the process."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` for the first signal, and ignore further ones while that exception is handled.

    Signals that are ignored, or that the calling program handles, stay as they are. Works in the main thread only.
    """

    def interrupt(number: int, frame: Any) -> None:
        handled = sys.exc_info()[1]
        while handled is not None and handled is not outer:
            if isinstance(handled, KeyboardInterrupt):
                return
            handled = handled.__context__
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated(signal.Signals(number).name)

    outer = sys.exc_info()[1]
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in SIGNALS if in_main}
    ours = {number: handler for number, handler in before.items() if handler in defaults}
    try:
        for number in ours:
            signal.signal(number, interrupt)
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


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
            stack.enter_context(held(path, SECONDS_TO_WAIT))
            path.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
        except TimeoutError:
            raise FailureError(
                f"{directory} is in use by {_holder(path)}; wait for its end, or choose another directory with --output"
            ) from None
        except OSError as error:
            raise FailureError(f"cannot write the run to {directory}: {error.strerror}") from None
        yield


@contextmanager
def held(path: Path, seconds: float) -> Iterator[None]:
    """Hold a lock, and remove its file at the end; raise ``TimeoutError`` after ``seconds`` (-1: wait for it)."""
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
