"""The estimated remaining time, against schedules worked out by hand."""

from pathlib import Path

import pytest

from bleugrad.lab.experiments.paper.config import ReproduceConfig
from bleugrad.lab.experiments.paper.plan import PlannedStage, Protocol
from bleugrad.lab.experiments.paper.scheduling.remaining import SECOND_PHASE, TEST, Durations, seconds_left
from bleugrad.lab.settings.loading import build

BASE, TEST_OF_BASE = PlannedStage("base", 1, "base"), PlannedStage("test", 1, "base")


@pytest.fixture
def protocol():
    values = {"branches": {"ce": {}, "exact": {}}, "seeds": 1, "tuning": {"factors": (1.0, 3.0), "epochs": 5}}
    return Protocol(build(ReproduceConfig, values), Path("out"))


@pytest.fixture
def durations(protocol):
    """Base 100 s, a try of CE 20 s and of exact 30 s, a test 10 s."""
    found = Durations()
    found.add(BASE, 100.0, epochs=10)
    found.add(protocol.tries(1, "ce")[0], 20.0)
    found.add(protocol.tries(1, "exact")[0], 30.0)
    found.add(TEST_OF_BASE, 10.0)
    return found


def test_nothing_is_known_before_the_first(protocol):
    assert seconds_left(protocol, protocol.stages, {}, Durations(), 1) is None


def test_one_at_a_time_is_the_sum(protocol, durations):
    assert seconds_left(protocol, protocol.stages, {}, durations, 1) == 100 + 2 * 20 + 2 * 30 + 3 * 10


def test_two_at_a_time_wait_for_what_they_need(protocol, durations):
    # One: base 0-100, its test 100-110, second ce 110-130, test of ce 130-140, second exact 140-170, its test 170-180.
    # Other: first ce 100-120, first exact 120-150, then nothing is ready.
    assert seconds_left(protocol, protocol.stages, {}, durations, 2) == 180


def test_what_runs_counts_for_the_rest_of_its_time(protocol, durations):
    waiting = [stage for stage in protocol.stages if stage != BASE]
    assert seconds_left(protocol, waiting, {BASE: 60.0}, durations, 1) == 40 + 130
    assert seconds_left(protocol, [], {BASE: 400.0}, durations, 1) == 0


def test_after_the_first_base_the_other_kinds_are_guessed_from_its_epochs(protocol):
    durations = Durations()
    durations.add(BASE, 100.0, epochs=10)
    waiting = [stage for stage in protocol.stages if stage != BASE]
    expected = 4 * 5 * 10 * SECOND_PHASE + 3 * 10 * TEST
    assert seconds_left(protocol, waiting, {}, durations, 1) == pytest.approx(expected)


def test_an_objective_not_yet_measured_is_guessed_from_the_others(protocol):
    durations = Durations()
    durations.add(BASE, 100.0, epochs=10)
    durations.add(protocol.tries(1, "ce")[0], 20.0)
    assert durations.expect(protocol.tries(1, "exact")[0], 5) == 20
