"""The status line of the scheduler, on a terminal only."""

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TextIO

from bleugrad.lab.experiments.paper.scheduling.remaining import in_words


class Screen(AbstractContextManager["Screen"]):
    """The last line of a terminal, which is overwritten."""

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = stream or sys.stderr
        self._bar: Any = None
        if stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(bar_format="{desc}", file=stream, dynamic_ncols=True, leave=False)

    @property
    def is_live(self) -> bool:
        """Whether the output is a terminal."""
        return self._bar is not None

    def show(self, done: int, total: int, running: Mapping[str, float], left: float | None) -> None:
        """Show the number of finished stages, the seconds of each running stage, and the seconds left."""
        if self._bar is not None:
            columns = shutil.get_terminal_size().columns  # a wrapped line cannot be overwritten
            self._bar.set_description_str(status_line(done, total, running, left)[: columns - 1])

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hide the line while something else is printed."""
        if self._bar is None:
            yield
            return
        with self._bar.external_write_mode(self._bar.fp):
            yield

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()


def status_line(done: int, total: int, running: Mapping[str, float], left: float | None) -> str:
    """The progress as text.

    Example:
        >>> status_line(3, 20, {"seed-1/exact-lr1e-4": 65.0}, 600.0)
        '3/20 stages done, about 10 min left; running: seed-1/exact-lr1e-4 (65 s)'
    """
    names = ", ".join(f"{name} ({in_words(seconds)})" for name, seconds in running.items())
    time_left = "" if left is None else f", about {in_words(left)} left"
    return f"{done}/{total} stages done{time_left}; running: {names}"
