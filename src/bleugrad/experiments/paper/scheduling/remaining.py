"""How long the rest will take, from what stages of each kind have taken so far."""

from collections.abc import Mapping, Sequence
from statistics import mean

from bleugrad.experiments.paper.plan import PlannedStage, Protocol

SECOND_PHASE = 1.5
"""Epochs of cross-entropy that one of another objective is taken to last, until one is measured."""
TEST = 1.0
"""Epochs that a test is taken to last, until one is measured."""


class Durations:
    """Seconds that stages took, by kind; a try's kind is its branch."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str], list[float]] = {}
        self._epoch: list[float] = []

    def add(self, stage: PlannedStage, seconds: float, epochs: int = 0) -> None:
        """A stage has taken so long, from its beginning; ``epochs`` are those of a base."""
        self._seconds.setdefault(_kind(stage), []).append(seconds)
        if stage.kind == "base":
            self._epoch.append(seconds / max(epochs, 1))

    def expect(self, stage: PlannedStage, epochs: int) -> float | None:
        """Seconds a stage will take, None while nothing is known; ``epochs`` are those of a try."""
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
    """Seconds until all is done, by going through the schedule; None while nothing is known.

    Args:
        protocol: for what a stage waits.
        waiting: the stages to be started, in order.
        running: those that run, and for how many seconds.
        durations: of earlier stages.
        jobs: stages at a time.
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
    """A duration as people say it.

    Example:
        >>> in_words(42), in_words(100), in_words(6 * 60), in_words(100 * 60)
        ('42 s', '100 s', '6 min', '1 h 40 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _kind(stage: PlannedStage) -> tuple[str, str]:
    return stage.kind, stage.branch if stage.kind == "try" else ""
