"""Timing as this project reports it: candidates take turns in one process, the best of several rounds counts."""

import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch


def best_times(
    candidates: dict[str, Callable[[], object]], rounds: int, warmup: int = 1, steady: bool = False
) -> dict[str, float]:
    """Seconds of the fastest of ``rounds`` calls of each candidate; each round calls them all in turn.

    ``steady`` calls each once more right before, untimed: what it costs in a loop of its own, where memory that the
    last step gave back is at hand.
    """
    best = dict.fromkeys(candidates, float("inf"))
    for turn in range(warmup + rounds):
        for name, call in candidates.items():
            if steady:
                call()
            begin = time.perf_counter()
            call()
            if turn >= warmup:
                best[name] = min(best[name], time.perf_counter() - begin)
    return best


def machine() -> dict[str, str]:
    """What the numbers were measured on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = f"{len(names)} x {names[0]}" if names else model
    return {"processor": model, "python": platform.python_version(), "torch": torch.__version__}
