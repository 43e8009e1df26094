"""Runs cases in forked workers, one per core, so that a crash or a hang is a finding and not the end."""

import contextlib
import json
import os
import selectors
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

HEADING = f"{'part':<8} {'tried':>8} {'survived':>9} {'failed':>7}"


@dataclass
class Result:
    """How many cases were tried, and what went wrong with which seed."""

    part: str
    tried: int = 0
    failures: dict[int, str] = field(default_factory=dict)

    def add(self, seed, failure):
        self.tried += 1
        if failure is not None:
            self.failures[seed] = failure

    def row(self):
        return f"{self.part:<8} {self.tried:>8} {self.tried - len(self.failures):>9} {len(self.failures):>7}"


class Worker:
    """A forked process that checks its seeds one after another and writes a line of JSON for each."""

    def __init__(self, check, seeds, seconds):
        self.left, self.content = list(seeds), b""
        self.reading, writing = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.setpgid(0, 0)  # its children are killed with it
            _check_all(check, self.left, writing)
        os.close(writing)
        self.seconds, self.deadline = seconds, time.monotonic() + seconds

    def read(self, result):
        """Take in the cases that are finished; False at the end of the pipe."""
        chunk = os.read(self.reading, 1 << 16)
        *lines, self.content = (self.content + chunk).split(b"\n")
        for line in lines:
            result.add(self.left.pop(0), json.loads(line))
            self.deadline = time.monotonic() + self.seconds
        return bool(chunk)

    def stop(self):
        """End the process if it still runs; how it ended, in words."""
        hung = time.monotonic() > self.deadline
        if hung:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child, signal.SIGKILL)
        status = os.waitpid(self.child, 0)[1]
        os.close(self.reading)
        return f"no end after {self.seconds} s" if hung else ending(status)


def sweep(part, check, seeds, seconds=60, workers=None):
    """Check every seed. A worker that dies, or is silent for ``seconds``, fails its seed, and another one continues."""
    result, seeds = Result(part), list(seeds)
    number = max(1, min(workers or os.cpu_count() or 1, len(seeds)))
    with selectors.DefaultSelector() as pipes:

        def start(seeds):
            worker = Worker(check, seeds, seconds)
            pipes.register(worker.reading, selectors.EVENT_READ, worker)

        for first in range(number):
            start(seeds[first::number])
        while pipes.get_map():
            ready = {key.data for key, _ in pipes.select(1)}
            for worker in [key.data for key in pipes.get_map().values()]:
                ended = worker in ready and not worker.read(result)
                if ended or time.monotonic() > worker.deadline:
                    pipes.unregister(worker.reading)
                    how = worker.stop()
                    if worker.left:
                        result.add(worker.left.pop(0), how)
                        start(worker.left)
    result.failures = dict(sorted(result.failures.items()))
    return result


def ending(status):
    """How a process ended, in words."""
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit code {os.WEXITSTATUS(status)}"


def run_child(work, output, seconds):
    """(how a forked child that does the work ended, its standard output, its standard error).

    Its exit code is what ``work`` returns. ``output`` is a path for the two streams, completed by .out and .err.
    """
    paths = [Path(f"{output}.{stream}") for stream in ("out", "err")]
    child = os.fork()
    if child == 0:
        _child(work, paths)
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found or time.monotonic() > end:
            break
        time.sleep(0.005)
    if not found:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
    return (ending(status) if found else f"no end after {seconds} s"), *texts


def _child(work, paths):
    code = 1
    try:
        for number, path in enumerate(paths, start=1):
            with path.open("wb", buffering=0) as file:
                os.dup2(file.fileno(), number)
        sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
        code = work() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _check_all(check, seeds, writing):
    code = 1
    try:
        for seed in seeds:
            os.write(writing, json.dumps(check(seed)).encode() + b"\n")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
