"""The estimated remaining time, against sums worked out by hand."""

from pathlib import Path

import pytest

from bleugrad.lab.experiments.paper.config import ReproduceConfig
from bleugrad.lab.experiments.paper.plan import Protocol
from bleugrad.lab.experiments.paper.scheduling.scheduler import seconds_left
from bleugrad.lab.settings.loading import build

DURATIONS = {"base": [90.0, 110.0], "try": [20.0, 30.0], "test": [10.0]}


@pytest.fixture
def stages():
    values = {"branches": {"ce": {}, "exact": {}}, "seeds": 1, "tuning": {"factors": (1.0, 3.0), "epochs": 5}}
    return Protocol(build(ReproduceConfig, values), Path("out")).stages


def test_nothing_is_known_before_the_first(stages):
    assert seconds_left(stages, {}, 1) is None


def test_workers_share_the_sum(stages):
    total = 100 + 4 * 25 + 3 * 10
    assert seconds_left(stages, DURATIONS, 1) == total
    assert seconds_left(stages, DURATIONS, 2) == total / 2
    assert seconds_left([], DURATIONS, 2) == 0


def test_what_is_not_yet_measured_is_guessed_from_the_others(stages):
    exact = next(stage for stage in stages if stage.branch == "exact")
    assert seconds_left([exact], {"base": [100.0], "test": [20.0]}, 1) == 60
