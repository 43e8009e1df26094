"""The scheduler: skips finished stages, gives ready ones to free workers, and starts none after a failure."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from multiprocessing.connection import wait
from statistics import mean

from tqdm import tqdm

from bleugrad.lab.errors import FailureError
from bleugrad.lab.experiments.paper.plan import LOGS, PlannedStage, Protocol, count_kinds, read_scores, read_summary
from bleugrad.lab.experiments.paper.scheduling.worker import Worker, least_used, visible_gpus
from bleugrad.lab.runs.directory import Run


class Scheduler:
    """Runs the stages of a protocol that are not ``done``, ``jobs`` of them in parallel.

    ``run`` gets a line and a record per stage, and ``after`` is called when a stage is done. A terminal
    shows a progress bar.
    """

    def __init__(
        self, protocol: Protocol, done: Set[PlannedStage], jobs: int, run: Run, after: Callable[[PlannedStage], None]
    ) -> None:
        self.protocol, self.jobs, self.run, self.after = protocol, jobs, run, after
        self.done = set(done)
        self.waiting = [stage for stage in protocol.stages if stage not in done]
        self.running: dict[Worker, tuple[PlannedStage, bool]] = {}  # and whether its directory exists
        self.idle: list[Worker] = []
        self.failures: list[str] = []
        self.durations: dict[str, list[float]] = {}  # seconds of the stages that this run finished, by kind
        self.gpus = visible_gpus(protocol.config.device)
        form, total = "{n_fmt}/{total_fmt} stages done, {elapsed}", len(protocol.stages)
        self.bar = tqdm(total=total, initial=len(done), bar_format=form, leave=False, disable=None)

    def execute(self) -> None:
        """Run all stages that are left."""
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
            self.running[worker] = stage, self.protocol.directory(stage).exists()
            worker.send(self.protocol.request(stage))

    def _free_worker(self) -> Worker:
        self.idle = [worker for worker in self.idle if worker.process.is_alive()]
        if self.idle:
            return self.idle.pop()
        return Worker(self.protocol.config.threads, least_used(self.gpus, self.running))

    def _wait(self) -> None:
        """Wait for the reply of a worker."""
        ready = wait([worker.connection for worker in self.running])
        for worker in [worker for worker in self.running if worker.connection in ready]:
            stage, resumed = self.running.pop(worker)
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
            self.durations.setdefault(stage.kind, []).append(reply["seconds"])
        times = {key: round(value, 2) for key, value in reply.items()}
        self.run.record(kind="stage", stage=name, resumed=resumed, **times)
        total = len(self.protocol.stages)
        left = seconds_left([*self.waiting, *(stage for stage, _ in self.running.values())], self.durations, self.jobs)
        count = f"[{len(self.done):{len(str(total))}}/{total}]"
        time_left = f"; about {in_words(left)} left" if left and self.waiting else ""
        self.bar.update(len(self.done) - self.bar.n)
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


def find_done(protocol: Protocol) -> set[PlannedStage]:
    """The finished stages. Writes nothing."""
    done: set[PlannedStage] = set()
    for stage in protocol.stages:  # a stage comes after those it needs
        if done.issuperset(protocol.needs(stage)) and protocol.is_done(stage):
            done.add(stage)
    return done


def seconds_left(stages: Iterable[PlannedStage], durations: Mapping[str, Sequence[float]], jobs: int) -> float | None:
    """Expected seconds of the stages, shared by ``jobs`` workers; None before the first stage is done.

    A stage takes as long as finished ones of its kind, or of any kind.
    """
    every = [seconds for found in durations.values() for seconds in found]
    return sum(mean(durations.get(stage.kind, every)) for stage in stages) / jobs if every else None


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
