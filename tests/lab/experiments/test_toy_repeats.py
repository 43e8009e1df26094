"""Repeated words: the true value equals the enumeration, and the bound exceeds it only for repeated words."""

import pytest
import torch

from bleugrad.lab.experiments.toy.config import RepeatsConfig
from bleugrad.lab.experiments.toy.repeats import (
    all_sequences,
    draw_reference,
    evaluate_case,
    random_cases,
    smallest_example,
)
from bleugrad.lab.experiments.toy.study import summarise_cases
from tests.oracles import bound
from tests.oracles.enumeration import enumerate_statistics


@pytest.mark.parametrize("reference", [[0, 1, 2], [1, 1, 0], [2, 2, 2]])
def test_a_case_equals_the_oracles(reference, rng):
    logits = torch.tensor(rng.normal(size=(3, 3)))
    case = evaluate_case(logits, torch.tensor(reference), all_sequences(3, 3), max_order=2, smoothing=1.0)
    rows = logits.softmax(1).numpy()
    table = enumerate_statistics(rows, [reference], 2)
    assert case.repeated == (len(set(reference)) < 3)
    assert case.true_matches == pytest.approx(list(table.mean(table.matches)), rel=1e-12)
    assert case.exact_matches == pytest.approx(case.true_matches, rel=1e-12)
    assert case.bound_matches == pytest.approx([bound.bound(rows, [reference], n) for n in (1, 2)], rel=1e-12)
    assert case.true_bleu == pytest.approx(table.mean(table.bleu(smoothing=1.0)), rel=1e-12)
    assert case.lower <= case.true_bleu <= case.upper
    assert case.exact_bleu == pytest.approx(case.upper)


def test_the_smallest_example_is_the_documented_one():
    points = list(smallest_example())
    half = next(point for point in points if point.p == pytest.approx(0.5))
    assert half.bound_matches == pytest.approx(1.5)
    assert half.true_matches == pytest.approx(1.375)
    assert half.exact_matches == pytest.approx(1.375)
    assert (points[0].p, points[0].true_matches) == (0.0, 0.0)
    assert (points[-1].p, points[-1].true_matches) == (1.0, 2.0)


def test_the_bound_exceeds_the_truth_with_repeated_words_only():
    cases = list(random_cases(RepeatsConfig(cases=60, vocabulary=4, length=4), seed=0))
    distinct, repeated = ([case for case in cases if case.repeated is kind] for kind in (False, True))
    assert len(distinct) == len(repeated) == 60
    assert summarise_cases(distinct)["bound_exceeds"] == 0
    assert summarise_cases(repeated)["bound_exceeds"] > 0
    assert summarise_cases(repeated)["largest_excess"] > 0.005
    for kind in (distinct, repeated):
        assert summarise_cases(kind)["exact_error"] < 1e-12


def test_references_are_of_the_kind_asked_for():
    generator = torch.Generator().manual_seed(0)
    config = RepeatsConfig(vocabulary=4, length=4)
    for _ in range(50):
        assert len(draw_reference(config, False, generator).unique()) == 4
        assert len(draw_reference(config, True, generator).unique()) < 4


def test_all_sequences_are_all_different():
    sequences = all_sequences(3, 4)
    assert sequences.shape == (81, 4)
    assert len(sequences.unique(dim=0)) == 81
    assert all_sequences(3, 1).shape == (3, 1)
