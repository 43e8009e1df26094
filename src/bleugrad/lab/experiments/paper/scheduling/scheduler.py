"""The scheduler: skips finished stages, gives ready ones to free workers, and starts none after a failure."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Set
from multiprocessing.connection import wait
from statistics import mean

from tqdm import tqdm

from bleugrad.lab.errors import FailureError
from bleugrad.lab.experiments.paper.plan import LOGS, PlannedStage, Protocol, count_kinds, read_scores, read_summary
from bleugrad.lab.experiments.paper.scheduling.worker import Worker, least_used, visible_gpus
from bleugrad.lab.runs.directory import METRICS, Run
from bleugrad.lab.runs.files import read_records

POLL_SECONDS = 1.0

Durations = dict[tuple[str, str], list[float]]
"""Seconds of finished stages by kind; for tries also by branch."""


class Scheduler:
    """Runs the stages of a protocol that are not ``done``, ``jobs`` of them in parallel.

    ``run`` gets a line and a record per stage, and ``after`` is called when a stage is done. The last line of a
    terminal shows the progress.
    """

    def __init__(
        self, protocol: Protocol, done: Set[PlannedStage], jobs: int, run: Run, after: Callable[[PlannedStage], None]
    ) -> None:
        self.protocol, self.jobs, self.run, self.after = protocol, jobs, run, after
        self.done = set(done)
        self.waiting = [stage for stage in protocol.stages if stage not in done]
        self.running: dict[Worker, tuple[PlannedStage, float, bool]] = {}
        self.idle: list[Worker] = []
        self.failures: list[str] = []
        self.durations: Durations = {}
        self.gpus = visible_gpus(protocol.config.device)
        self.bar = tqdm(bar_format="{desc}", dynamic_ncols=True, leave=False, disable=None)  # None: if no terminal

    def execute(self) -> None:
        """Run all stages that are left."""
        self._recall_durations()
        total = len(self.protocol.stages)
        gpus = f" on {len(self.gpus)} GPUs" if self.gpus else ""
        skipped = f"; already done: {len(self.done)}" if self.done else ""
        self.run.say(f"stages: {total} ({count_kinds(self.protocol.stages)}){skipped}; in parallel: {self.jobs}{gpus}")
        if len(self.done) < total:
            self.run.say(f"output of each stage: {self.protocol.output / LOGS}")
        try:
            self._start_ready()
            while self.running:
                self._wait()
                self._start_ready()
        finally:
            for worker in self.running:
                worker.interrupt()
            for worker in [*self.running, *self.idle]:
                worker.close()
            self.bar.close()
        if self.failures:
            raise FailureError("; ".join(self.failures) + "; fix the cause and rerun the command to resume")

    def _recall_durations(self) -> None:
        """Read the durations of stages before this run was interrupted."""
        stages = {self.protocol.name(stage): stage for stage in self.done}
        for record in read_records(self.run.path / METRICS):
            if record["stage"] in stages and not record.get("resumed"):
                self.durations.setdefault(_kind(stages[record["stage"]]), []).append(record["seconds"])

    def _start_ready(self) -> None:
        if self.failures:
            return
        for stage in [stage for stage in self.waiting if self.done.issuperset(self.protocol.needs(stage))]:
            if len(self.running) == self.jobs:
                return
            self.waiting.remove(stage)
            if self.protocol.is_done(stage):  # two branches can share a run
                self.done.add(stage)
                self.after(stage)
                continue
            worker = self._free_worker()
            self.running[worker] = stage, time.monotonic(), self.protocol.directory(stage).exists()
            worker.send(self.protocol.request(stage))
        self._show()

    def _free_worker(self) -> Worker:
        self.idle = [worker for worker in self.idle if worker.process.is_alive()]
        if self.idle:
            return self.idle.pop()
        return Worker(self.protocol.config.threads, least_used(self.gpus, self.running))

    def _wait(self) -> None:
        """Wait for the reply of a worker."""
        while not (ready := wait([worker.connection for worker in self.running], POLL_SECONDS)):
            self._show()
        for worker in [worker for worker in self.running if worker.connection in ready]:
            stage, _, resumed = self.running.pop(worker)
            reply = worker.reply()
            if reply is None:
                self._fail(stage, worker.end_in_words())
                continue
            self.idle.append(worker)
            if "error" in reply:
                self._fail(stage, reply["error"])
            else:
                self._succeed(stage, resumed and stage.kind != "test", reply)

    def _succeed(self, stage: PlannedStage, resumed: bool, reply: dict[str, float]) -> None:
        self.done.add(stage)
        name = self.protocol.name(stage)
        if not resumed:
            self.durations.setdefault(_kind(stage), []).append(reply["seconds"])
        times = {key: round(value, 2) for key, value in reply.items()}
        self.run.record(kind="stage", stage=name, resumed=resumed, **times)
        total, left = len(self.protocol.stages), self._left()
        count = f"[{len(self.done):{len(str(total))}}/{total}]"
        time_left = f"; about {in_words(left)} left" if left and self.waiting else ""
        with self.bar.external_write_mode():
            self.run.say(f"{count} {name}: {self._outcome(stage)}, {in_words(reply['seconds'])}{time_left}")
        self.after(stage)

    def _outcome(self, stage: PlannedStage) -> str:
        directory, searches = self.protocol.directory(stage), self.protocol.config.searches
        if stage.kind == "test":
            found = {name: 100 * read_scores(directory, width)["bleu"] for name, width in searches.items()}
            return f"BLEU {', '.join(f'{bleu:.2f} {name}' for name, bleu in found.items())}"
        summary = read_summary(directory)
        return f"valid BLEU {100 * summary['best_bleu']:.2f} (epoch {summary['best_epoch']} of {summary['epochs']})"

    def _fail(self, stage: PlannedStage, reason: str) -> None:
        name = self.protocol.name(stage)
        self.failures.append(f"{name} failed: {reason}; its log: {self.protocol.log(stage)}")
        others = f"; no more stages are started, {len(self.running)} still running" if self.running else ""
        with self.bar.external_write_mode():
            self.run.say(f"{name} failed: {reason}{others}")

    def _left(self) -> float | None:
        now = time.monotonic()
        running = {stage: now - began for stage, began, _ in self.running.values()}
        return seconds_left(self.waiting, running, self.durations, self.jobs)

    def _show(self) -> None:
        if self.bar.disable:
            return
        now = time.monotonic()
        running = {self.protocol.name(stage): now - began for stage, began, _ in self.running.values()}
        line = status_line(len(self.done), len(self.protocol.stages), running, self._left())
        self.bar.set_description_str(line[: shutil.get_terminal_size().columns - 1])  # a wrapped line would stay


def find_done(protocol: Protocol) -> set[PlannedStage]:
    """The finished stages. Writes nothing."""
    done: set[PlannedStage] = set()
    for stage in protocol.stages:  # a stage comes after those it needs
        if done.issuperset(protocol.needs(stage)) and protocol.is_done(stage):
            done.add(stage)
    return done


def seconds_left(
    waiting: Iterable[PlannedStage], running: Mapping[PlannedStage, float], durations: Durations, jobs: int
) -> float | None:
    """Estimated seconds until all stages are done, shared by ``jobs`` workers; None before the first stage is done.

    A stage takes as long as earlier ones of its branch, of its kind, or of any kind. ``running`` has the seconds that
    each running stage took so far. Waits for other stages are not counted.
    """
    if not durations:
        return None

    def expected(stage: PlannedStage) -> float:
        of_kind = [one for kind, found in durations.items() if kind[0] == stage.kind for one in found]
        return mean(durations.get(_kind(stage)) or of_kind or [one for found in durations.values() for one in found])

    rest = [max(expected(stage) - elapsed, 0.0) for stage, elapsed in running.items()]
    rest += map(expected, waiting)
    return max(sum(rest) / jobs, *rest, 0.0)


def in_words(seconds: float) -> str:
    """A duration as text.

    Example:
        >>> in_words(42), in_words(100), in_words(6 * 60), in_words(100 * 60)
        ('42 s', '100 s', '6 min', '1 h 40 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def status_line(done: int, total: int, running: Mapping[str, float], left: float | None) -> str:
    """The progress as text.

    Example:
        >>> status_line(3, 20, {"seed-1/exact-lr1e-4": 65.0}, 600.0)
        '3/20 stages done, about 10 min left; running: seed-1/exact-lr1e-4 (65 s)'
    """
    names = ", ".join(f"{name} ({in_words(seconds)})" for name, seconds in running.items())
    time_left = "" if left is None else f", about {in_words(left)} left"
    return f"{done}/{total} stages done{time_left}; running: {names}"


def _kind(stage: PlannedStage) -> tuple[str, str]:
    return stage.kind, stage.branch if stage.kind == "try" else ""
