"""What is going on, on one line that is written over; where that cannot be, nothing."""

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO

from bleugrad.experiments.paper.scheduling.remaining import in_words


class Screen:
    """The last line of a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = stream or sys.stderr
        self._bar: Any = None
        if stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(bar_format="{desc}", file=stream, dynamic_ncols=True, leave=False)

    @property
    def is_live(self) -> bool:
        """Whether anything is shown."""
        return self._bar is not None

    def show(self, done: int, total: int, at_work: Mapping[str, float], left: float | None) -> None:
        """How many stages are done, which are at work and for how many seconds, and how many seconds are left."""
        if self._bar is not None:
            columns = shutil.get_terminal_size().columns  # a line that wraps could not be written over
            self._bar.set_description_str(status_line(done, total, at_work, left)[: columns - 1])

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the line away while something else is printed."""
        if self._bar is None:
            yield
            return
        with self._bar.external_write_mode(self._bar.fp):
            yield

    def __enter__(self) -> "Screen":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def status_line(done: int, total: int, at_work: Mapping[str, float], left: float | None) -> str:
    """The state in words.

    Example:
        >>> status_line(3, 20, {"seed-1/exact-lr1e-4": 65.0}, 600.0)
        '3/20 stages done, about 10 min left; at work: seed-1/exact-lr1e-4 (65 s)'
    """
    names = ", ".join(f"{name} ({in_words(seconds)})" for name, seconds in at_work.items())
    time_left = "" if left is None else f", about {in_words(left)} left"
    return f"{done}/{total} stages done{time_left}; at work: {names}"
