"""The estimated remaining time, against sums worked out by hand."""

from pathlib import Path

import pytest

from bleugrad.lab.experiments.paper.config import ReproduceConfig
from bleugrad.lab.experiments.paper.plan import PlannedStage, Protocol
from bleugrad.lab.experiments.paper.scheduling.scheduler import seconds_left
from bleugrad.lab.settings.loading import build

BASE = PlannedStage("base", 1, "base")
DURATIONS = {("base", ""): [90.0, 110.0], ("try", "ce"): [20.0], ("try", "exact"): [30.0], ("test", ""): [10.0]}


@pytest.fixture
def stages():
    values = {"branches": {"ce": {}, "exact": {}}, "seeds": 1, "tuning": {"factors": (1.0, 3.0), "epochs": 5}}
    return Protocol(build(ReproduceConfig, values), Path("out")).stages


def test_nothing_is_known_before_the_first(stages):
    assert seconds_left(stages, {}, {}, 1) is None


def test_workers_share_the_sum(stages):
    total = 100 + 2 * 20 + 2 * 30 + 3 * 10
    assert seconds_left(stages, {}, DURATIONS, 1) == total
    assert seconds_left(stages, {}, DURATIONS, 2) == total / 2
    assert seconds_left(stages, {}, DURATIONS, 9) == 100, "as long as the longest stage"


def test_what_runs_counts_for_the_rest_of_its_time(stages):
    waiting = [stage for stage in stages if stage != BASE]
    assert seconds_left(waiting, {BASE: 60.0}, DURATIONS, 1) == 40 + 130
    assert seconds_left([], {BASE: 400.0}, DURATIONS, 1) == 0


def test_what_is_not_yet_measured_is_guessed_from_the_others(stages):
    exact = next(stage for stage in stages if stage.branch == "exact")
    assert seconds_left([exact], {}, {("base", ""): [100.0], ("try", "ce"): [20.0]}, 1) == 20
    assert seconds_left([exact], {}, {("base", ""): [100.0]}, 1) == 100
