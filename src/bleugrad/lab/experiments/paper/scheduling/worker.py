"""Workers: processes that run stages one after the other for the scheduler. A stage prints to its log."""

import os
import shlex
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.settings.loading import build
from bleugrad.lab.training.config import TrainConfig

SHUTDOWN_SECONDS = 20.0
"""Time for a worker to end before it is killed."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


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


def visible_gpus(device: str) -> list[str]:
    """The GPUs that the workers share, as CUDA numbers or names them; none if the settings ask for the CPU."""
    if device == "cpu":
        return []
    import torch

    listed = [one.strip() for one in os.environ.get(VISIBLE, "").split(",") if one.strip()]
    number = torch.cuda.device_count()
    return listed[:number] if listed else [str(place) for place in range(number)]


def least_used(gpus: Sequence[str], workers: "Iterable[Worker]") -> str | None:
    """The GPU with the fewest workers, the first of several; None without GPUs."""
    counts = Counter(worker.gpu for worker in workers)
    return min(gpus, key=lambda gpu: counts[gpu]) if gpus else None


class Worker:
    """A process that runs one stage at a time, with ``threads`` threads of torch (0: torch's default).

    ``gpu`` is the only GPU that it sees; None if all or none. ``connection`` is ready when the stage has ended.
    """

    def __init__(self, threads: int, gpu: str | None = None) -> None:
        environment = {"OMP_NUM_THREADS": str(threads)} if threads else {}
        environment |= {} if gpu is None else {VISIBLE: gpu}
        self.gpu = gpu
        context = get_context("spawn")
        self.connection, remote = context.Pipe()
        self.process = context.Process(target=serve, args=(remote, environment), daemon=True)  # ends with this process
        self.process.start()
        remote.close()

    def send(self, request: dict[str, Any]) -> None:
        """Send a stage. If the process has ended, the next reply says so."""
        with suppress(ConnectionError):
            self.connection.send(request)

    def reply(self) -> dict[str, Any] | None:
        """The answer; None if the process has ended."""
        with suppress(EOFError, ConnectionError):
            reply: dict[str, Any] = self.connection.recv()
            return reply
        self.process.join()
        return None

    def end_in_words(self) -> str:
        """How the process ended, as text."""
        code = self.process.exitcode or 0
        return f"its process was killed by signal {-code}" if code < 0 else f"its process ended with code {code}"

    def interrupt(self) -> None:
        """Interrupt the stage."""
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGINT)

    def close(self) -> None:
        """End the process when its stage has ended, or else kill it."""
        self.connection.close()
        self.process.join(SHUTDOWN_SECONDS)
        self.process.kill()
        self.process.join()
