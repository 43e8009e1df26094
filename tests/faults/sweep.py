"""Runs the cases of many seeds in forked children, so that a crash or a hang is a finding and not the end."""

import json
import os
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field


@dataclass
class Result:
    """How many cases were tried, and what went wrong with which seed."""

    part: str
    tried: int = 0
    failures: dict[int, str] = field(default_factory=dict)

    def row(self):
        return f"{self.part:<8} {self.tried:>8} {self.tried - len(self.failures):>9} {len(self.failures):>7}"


HEADING = f"{'part':<8} {'tried':>8} {'survived':>9} {'failed':>7}"


def sweep(part, check, seeds, seconds=30):
    """Check every seed; a child that dies or says nothing for ``seconds`` fails its seed, and another goes on."""
    result, left = Result(part), list(seeds)
    while left:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _check_all(check, left, writing)
        os.close(writing)
        done, hung = _read(reading, seconds)
        if hung:
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        os.close(reading)
        for seed, failure in done:
            result.tried += 1
            if failure is not None:
                result.failures[seed] = failure
        left = left[len(done) :]
        if left:  # the child did not come to the end
            result.tried += 1
            result.failures[left[0]] = f"no end after {seconds} s" if hung else ending(status)
            left = left[1:]
    return result


def ending(status):
    """How a process ended, in words."""
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit code {os.WEXITSTATUS(status)}"


def run_child(work, output, seconds):
    """(how a forked child that does the work ended, what it wrote); its exit code is what ``work`` returns."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with open(output, "wb", buffering=0) as file:
                for number in (1, 2):
                    os.dup2(file.fileno(), number)
            sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
            code = work() or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return ending(status), output.read_text(encoding="utf-8", errors="replace")
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"no end after {seconds} s", ""
        time.sleep(0.01)


def _check_all(check, seeds, writing):
    code = 1
    try:
        for seed in seeds:
            os.write(writing, json.dumps([seed, check(seed)]).encode() + b"\n")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _read(reading, seconds):
    """The whole lines of a pipe, and whether it fell silent before its end."""
    content = b""
    while True:
        if not select.select([reading], [], [], seconds)[0]:
            break
        chunk = os.read(reading, 1 << 16)
        if not chunk:
            return [json.loads(line) for line in content.splitlines()], False
        content += chunk
    return [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()], True
