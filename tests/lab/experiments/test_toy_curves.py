"""The learning curves: every measurement has the right value, and gradient ascent raises the objective."""

from dataclasses import asdict, replace

import pytest
import torch

from bleugrad.lab.experiments.toy.config import ToyConfig
from bleugrad.lab.experiments.toy.curves import learning_curve, measure
from tests.oracles import bound
from tests.oracles.enumeration import enumerate_statistics

SMALL = ToyConfig(orders=(1, 2), vocabulary=4, length=4, seeds=1, steps=30, learning_rate=0.3, samples=4000)


def measured(config, order, logits, reference):
    return measure(config, order, 7, logits, reference, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_measurement_equals_enumeration(order, smoothing, rng):
    reference = [0, 1, 1, 3]
    logits = torch.tensor(rng.normal(size=(4, 4)))
    point = measured(replace(SMALL, smoothing=smoothing), order, logits, torch.tensor(reference))
    rows = logits.softmax(1).numpy()
    table = enumerate_statistics(rows, [reference], order)
    totals = [4 - n for n in range(order)]
    truth = table.mean(table.bleu(smoothing=smoothing))

    def composite(matches):
        value = 1.0
        for found, total in zip(matches, totals, strict=True):
            value *= ((found + smoothing) / (total + smoothing)) ** (1 / order)
        return value

    assert point.step == 7
    assert point.exact == pytest.approx(composite(table.mean(table.matches)), rel=1e-12)
    assert point.bound == pytest.approx(
        composite([bound.bound(rows, [reference], n) for n in range(1, order + 1)]), rel=1e-12
    )
    assert point.paper_bound == pytest.approx(point.bound - (1 if order > 1 else 0), abs=1e-15)
    assert point.lower - 1e-12 <= truth <= point.upper + 1e-12
    assert abs(point.sampled - truth) < 4 * point.standard_error
    deviation = (table.mean(table.bleu(smoothing=smoothing) ** 2) - truth**2) ** 0.5
    assert point.standard_error == pytest.approx(deviation / SMALL.samples**0.5, rel=0.1)


def test_certain_rows_score_what_their_tokens_score():
    reference = torch.tensor([0, 1, 2, 3])
    hypothesis = torch.tensor([0, 1, 3, 2])
    logits = 200.0 * torch.nn.functional.one_hot(hypothesis, 4).double()
    point = measured(SMALL, 2, logits, reference)
    expected = (1.0 * 1 / 3) ** 0.5
    for name in ("argmax_bleu", "bound", "exact", "sampled"):
        assert getattr(point, name) == pytest.approx(expected), name
    assert point.standard_error < 1e-9


@pytest.mark.parametrize("method", ["bound", "exact"])
@pytest.mark.parametrize(("optimizer", "rate"), [("adam", 0.3), ("ascent", 20.0)])
def test_the_ascent_rises_with_either_method_and_optimizer(method, optimizer, rate):
    config = replace(SMALL, method=method, optimizer=optimizer, learning_rate=rate)
    curve = list(learning_curve(config, 2, seed=0))
    climbed = [getattr(point, method) for point in curve]
    assert climbed[-1] > climbed[0] + 0.2
    assert curve[-1].sampled > curve[0].sampled + 0.2


def test_both_ends_are_measured_and_the_seed_decides_everything():
    config = replace(SMALL, steps=12, every=5, samples=50)
    first = [asdict(point) for point in learning_curve(config, 1, seed=3)]
    assert [point["step"] for point in first] == [0, 5, 10, 12]
    assert first == [asdict(point) for point in learning_curve(config, 1, seed=3)]
    assert first != [asdict(point) for point in learning_curve(config, 1, seed=4)]


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_defaults_make_the_curve_of_the_paper(order):
    """From next to nothing to a high score within the default steps, bound and expectation together."""
    curve = list(learning_curve(replace(ToyConfig(), every=25, samples=300), order, seed=0))
    assert curve[0].sampled < 0.01
    assert curve[-1].sampled > 0.6
    assert abs(curve[-1].bound - curve[-1].sampled) < 0.02
