"""The status of the scheduler as text, with the remaining time, estimated from the durations of earlier stages."""

from collections.abc import Mapping, Sequence
from statistics import mean

from bleugrad.lab.experiments.paper.plan import PlannedStage, Protocol

SECOND_PHASE = 1.5
"""Duration of a second-phase epoch in epochs of cross-entropy, until one is measured."""
TEST = 1.0
"""Duration of a test in epochs of cross-entropy, until one is measured."""


class Durations:
    """Seconds of stages by kind; for tries also by branch."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str], list[float]] = {}
        self._epoch: list[float] = []

    def add(self, stage: PlannedStage, seconds: float, epochs: int = 0) -> None:
        """Add the duration of a stage; ``epochs`` is the number of epochs of a base."""
        self._seconds.setdefault(_kind(stage), []).append(seconds)
        if stage.kind == "base":
            self._epoch.append(seconds / max(epochs, 1))

    def expect(self, stage: PlannedStage, epochs: int) -> float | None:
        """Expected seconds of a stage, None if unknown; ``epochs`` is the number of epochs of a try."""
        for known in (_kind(stage), *(kind for kind in self._seconds if kind[0] == stage.kind)):
            if known in self._seconds:
                return mean(self._seconds[known])
        if not self._epoch:
            return None
        return mean(self._epoch) * (TEST if stage.kind == "test" else SECOND_PHASE * epochs)


def seconds_left(
    protocol: Protocol,
    waiting: Sequence[PlannedStage],
    running: Mapping[PlannedStage, float],
    durations: Durations,
    jobs: int,
) -> float | None:
    """Seconds until all stages are done, by simulating the schedule with ``jobs`` workers; None if unknown.

    ``waiting`` are the stages to be started, in order; ``running`` has the seconds that each running stage took so far.
    """
    ends: dict[PlannedStage, float] = {}
    for stage in [*running, *waiting]:
        expected = durations.expect(stage, protocol.config.tuning.epochs)
        if expected is None:
            return None
        ends[stage] = expected
    busy = {stage: max(ends[stage] - elapsed, 0.0) for stage, elapsed in running.items()}
    left, now = list(waiting), 0.0
    while busy or left:
        open_stages = {*busy, *left}
        ready = [stage for stage in left if open_stages.isdisjoint(protocol.needs(stage))]
        for stage in ready[: max(jobs - len(busy), 0)]:
            left.remove(stage)
            busy[stage] = now + ends[stage]
        now = min(busy.values())
        busy = {stage: end for stage, end in busy.items() if end > now}
    return now


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
