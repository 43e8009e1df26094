"""Which objective is reported as best, which runs converged, and which translations are shown."""

import json
from types import SimpleNamespace

import pytest

from bleugrad.lab.experiments.paper.plan import PlannedStage
from bleugrad.lab.experiments.paper.results import epoch_seconds, settled, supported_best


def judged(means, p):
    table = {label: {"mean": mean} for label, mean in means.items()}
    pairs = [{"one": one, "other": other, "p": value} for (one, other), value in p.items()]
    return supported_best(list(means), table, pairs)


SCORES = {"ce": 0.30, "bound": 0.32, "exact": 0.33}


@pytest.mark.parametrize(
    ("p", "best"),
    [
        ({("exact", "ce"): 0.01, ("exact", "bound"): 0.04}, "exact"),
        ({("ce", "exact"): 0.01, ("bound", "exact"): 0.04}, "exact"),
        ({("exact", "ce"): 0.01, ("exact", "bound"): 0.06}, None),
        ({("exact", "ce"): 0.06, ("exact", "bound"): 0.01}, None),
        ({("exact", "ce"): 0.05, ("exact", "bound"): 0.01}, None),
        ({("exact", "ce"): None, ("exact", "bound"): None}, None),
    ],
)
def test_the_best_must_beat_cross_entropy_and_the_second(p, best):
    assert judged(SCORES, {("bound", "ce"): 0.5, **p}) == best


def test_cross_entropy_can_be_the_best():
    means = {"ce": 0.34, "bound": 0.32, "exact": 0.33}
    p = {("bound", "ce"): 0.9, ("exact", "ce"): 0.01, ("exact", "bound"): 0.9}
    assert judged(means, p) == "ce"


def test_one_objective_alone_is_not_best():
    assert judged({"exact": 0.3}, {}) is None


def test_a_base_has_settled_if_its_last_epochs_brought_next_to_nothing():
    assert settled([0.2, 0.3, 0.3, 0.3009, 0.3019])
    assert not settled([0.2, 0.3, 0.3, 0.3009, 0.3021])
    assert not settled([0.3, 0.3, 0.3])


@pytest.mark.parametrize(
    ("timings", "expected"),
    [
        ([(1, 10, 4.0), (2, 10, 6.0), (3, 10, 5.0)], 5.0),
        ([(1, 10, 4.0), (2, 2, 1.0), (3, 10, 6.0)], 5.0),  # epoch 2 was resumed for its last two steps
        ([(1, 10, 4.0), (2, 10, 9.0), (2, 5, 2.5), (3, 10, 6.0)], 5.0),  # epoch 2 was recorded, killed, and resumed
        ([(1, 10, 4.0), (2, 10, 6.0), (9, 10, 100.0)], 5.0),  # no such epoch in the summary
        (None, None),
    ],
)
def test_seconds_per_epoch_come_from_saved_timings(tmp_path, timings, expected):
    history = [{"epoch": epoch, "step": 10 * epoch} for epoch in range(4)]
    (tmp_path / "summary.json").write_text(json.dumps({"best_bleu": 0.1, "history": history}))
    (tmp_path / "log.txt").write_text("epoch 1: loss 1.0, 1000.0 steps/s, valid BLEU 1.00\n")
    if timings is not None:
        lines = [json.dumps(dict(zip(("epoch", "steps", "seconds"), timing, strict=True))) for timing in timings]
        (tmp_path / "timings.jsonl").write_text("".join(f"{line}\n" for line in lines))
    protocol = SimpleNamespace(directory=lambda stage: tmp_path)
    assert epoch_seconds(protocol, [PlannedStage("base", 1, "base")]) == expected
