"""A worker process: runs stages one after the other for the scheduler. A stage prints to its log."""

import os
import shlex
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.settings.loading import build
from bleugrad.lab.training.config import TrainConfig


def serve(requests: "Connection", environment: dict[str, str]) -> None:
    """Answer the requests of a connection until it is closed. ``environment`` is set before torch is loaded."""
    os.environ.update(environment)
    os.setsid()  # Ctrl-C reaches the scheduler only, which passes it on
    # the shell of a background job makes it ignore SIGINT, with which the scheduler interrupts a stage
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import bleugrad.lab.training.evaluation  # noqa: F401 (loads torch before a stage is timed)

    while True:
        try:
            request = requests.recv()
        except EOFError:
            return
        with _printing_to(Path(request["log"])):
            reply = _execute(request)
        requests.send(reply)


def _end_with_parent() -> None:
    """End when the scheduler has ended, also in the middle of a step: saved files are complete."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(0)


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
