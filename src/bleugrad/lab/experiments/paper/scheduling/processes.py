"""The workers as the scheduler sees them: started on demand, and ended with this process."""

import os
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from typing import Any

from bleugrad.lab.experiments.paper.scheduling.worker import serve

SHUTDOWN_SECONDS = 20.0
"""Time for a worker to end before it is killed."""

VISIBLE = "CUDA_VISIBLE_DEVICES"


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
