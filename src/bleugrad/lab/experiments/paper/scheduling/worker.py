"""A worker process: runs stages one after the other for the scheduler.

Requests are lines of JSON on standard input, replies go to standard output, and a stage prints to its log. When the
scheduler ends, for any reason, standard input ends, and this process with it.
"""

import json
import os
import queue
import shlex
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.settings.loading import build
from bleugrad.lab.training.config import TrainConfig


def main() -> None:
    """Serve until standard input ends."""
    # the shell of a background job makes it ignore SIGINT, with which the scheduler interrupts a stage
    signal.signal(signal.SIGINT, signal.default_int_handler)
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    import bleugrad.lab.training.evaluation  # noqa: F401 (loads torch before a stage is timed)

    while True:
        request = requests.get()
        with _printing_to(Path(request["log"])):
            reply = _execute(request)
        print(json.dumps(reply), file=replies)


def _listen(requests: "queue.Queue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(0)  # also in the middle of a step: saved files are complete, and the run can be resumed


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    log.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.close(handle)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _execute(request: dict[str, Any]) -> dict[str, Any]:
    wall, processor = time.monotonic(), time.process_time()
    try:
        _test(request) if request["kind"] == "test" else _train(request)
    except (UsageError, FailureError) as error:
        print(error, file=sys.stderr)
        return {"error": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}".rstrip(": ")}
    return {"seconds": time.monotonic() - wall, "processor_seconds": time.process_time() - processor}


def _train(request: dict[str, Any]) -> None:
    from bleugrad.lab.training.run import train_run

    directory, initial = request["directory"], request["initial"]
    words = ["bleugrad", "tune", initial] if initial else ["bleugrad", "train"]
    train_run(
        build(TrainConfig, request["settings"]),
        Path(directory),
        initial=Path(initial) if initial else None,
        resume=True,
        study="tune" if initial else "train",
        command=shlex.join([*words, "--config", f"{directory}/config.toml", "--output", directory]),
    )


def _test(request: dict[str, Any]) -> None:
    from bleugrad.lab.training.evaluation import evaluate_run

    for found in evaluate_run(Path(request["directory"]), request["device"], "test", request["beams"]):
        print(f"test, {found.search}: {found.scores.line()}", flush=True)


if __name__ == "__main__":
    main()
