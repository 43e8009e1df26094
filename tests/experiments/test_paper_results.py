"""What is said to be best, what has converged, and which translations are shown."""

import pytest

from bleugrad.experiments.paper.results import settled, supported_best


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
