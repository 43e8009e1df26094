"""Signals that end a process: the first interrupts it as Ctrl-C does, later ones do not disturb its cleanup."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


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
