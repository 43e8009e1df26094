"""The workers as the scheduler sees them: started on demand, and ended with this process."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

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

    ``replies`` gets this worker with each answer, and with None when the process has ended. ``gpu`` is the only GPU
    that it sees; None if all or none.
    """

    def __init__(
        self, threads: int, replies: "queue.Queue[tuple[Worker, dict[str, Any] | None]]", gpu: str | None = None
    ) -> None:
        environment = os.environ | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
        environment |= {} if gpu is None else {VISIBLE: gpu}
        self.gpu = gpu
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bleugrad.lab.experiments.paper.scheduling.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
            start_new_session=True,  # Ctrl-C reaches the scheduler only, which passes it on
        )
        self._replies = replies
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def send(self, request: dict[str, Any]) -> None:
        """Send a stage. If the process has ended, ``replies`` says so."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def end_in_words(self) -> str:
        """How the process ended, as text."""
        code = self._process.wait()
        return f"its process was killed by signal {-code}" if code < 0 else f"its process ended with code {code}"

    def interrupt(self) -> None:
        """Interrupt the stage."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._replies.put((self, json.loads(line)))
        self._replies.put((self, None))
