"""Progress of long work: a live bar in a terminal with tqdm, a plain line every few seconds elsewhere."""

import sys
import time
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any, TextIO

SECONDS_BETWEEN_LINES = 5.0


class Progress(AbstractContextManager["Progress"]):
    """Units of work done, with rate, remaining time and the current value of some metrics, on standard error."""

    def __init__(self, total: int, what: str, unit: str = "step", stream: TextIO | None = None) -> None:
        self.total, self.what, self.unit = total, what, unit
        self.stream = stream or sys.stderr
        self.done = 0
        self._metrics: dict[str, float] = {}
        self._began = self._last = time.monotonic()
        self._bar: Any = None
        if self.stream.isatty() and find_spec("tqdm"):
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc=what, unit=unit, file=self.stream, dynamic_ncols=True)

    def advance(self, amount: int = 1, **metrics: float) -> None:
        """Add work done; ``metrics`` replace the earlier ones."""
        self.done += amount
        self._metrics = metrics or self._metrics
        if self._bar is not None:
            self._bar.set_postfix({name: f"{value:.4g}" for name, value in self._metrics.items()}, refresh=False)
            self._bar.update(amount)
        elif self.done >= self.total or time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            print(self.line(), file=self.stream, flush=True)

    def line(self) -> str:
        """The progress as text."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        rate = self.done / seconds
        left = f"{(self.total - self.done) / rate:.0f} s left" if rate > 0 else "time left unknown"
        parts = [f"{self.what}: {self.done}/{self.total} {self.unit}s", f"{rate:.3g} {self.unit}s/s", left]
        parts += [f"{name} {value:.4g}" for name, value in self._metrics.items()]
        return ", ".join(parts)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
