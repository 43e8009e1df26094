"""Timing for all benchmarks: candidates take turns in one process, and the best of several rounds counts."""

import json
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch


def best_times(
    candidates: dict[str, Callable[[], object]],
    rounds: int,
    warmup: int = 1,
    steady: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds of the fastest of ``rounds`` calls per candidate; each round calls all candidates in turn.

    ``steady`` makes an untimed call right before each timed call. The result is the cost in a loop of the same call,
    which can reuse the memory of the previous one. ``time.process_time`` as ``clock`` leaves out the time that other
    processes take from a call, and adds up the times of threads.
    """
    best = dict.fromkeys(candidates, float("inf"))
    for turn in range(warmup + rounds):
        for name, call in candidates.items():
            if steady:
                call()
            begin = clock()
            call()
            if turn >= warmup:
                best[name] = min(best[name], clock() - begin)
    return best


def machine() -> dict[str, str]:
    """Processor and versions of the measurement."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = f"{len(names)} x {names[0]}" if names else model
    return {"processor": model, "python": platform.python_version(), "torch": torch.__version__}


def keep(folder: Path | None, name: str, record: Mapping[str, Any], summary: str) -> None:
    """Write a record and its summary into a folder, if there is one: NAME.json and summary.md."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        (folder / "summary.md").write_text(summary, encoding="utf-8")
