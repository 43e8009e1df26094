"""The other end of the workers: started when needed, told what to do, and ended with this process."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import Any

SHUTDOWN_SECONDS = 20.0
"""Seconds a worker has to end after it was asked to."""


class Worker:
    """A process that carries out one stage at a time.

    Args:
        threads: of torch in it; 0 leaves it to torch.
        replies: gets this worker and what it answers; None once it has ended.
    """

    def __init__(self, threads: int, replies: "queue.Queue[tuple[Worker, dict[str, Any] | None]]") -> None:
        environment = os.environ | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bleugrad.experiments.paper.scheduling.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
            start_new_session=True,  # an interrupt from the keyboard comes to us only, and we pass it on
        )
        self._replies = replies
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def send(self, request: dict[str, Any]) -> None:
        """Have a stage carried out. That the process has ended meanwhile is heard in the replies."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def end_in_words(self) -> str:
        """How the process ended."""
        code = self._process.wait()
        return f"its process was ended by signal {-code}" if code < 0 else f"its process ended with code {code}"

    def interrupt(self) -> None:
        """Have it break off and say so in its run."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """End it."""
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
