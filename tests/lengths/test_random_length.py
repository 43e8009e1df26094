"""Hypotheses that end at the first EOS: every expectation against enumeration."""

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import FAMILIES, Case, assert_near, assert_same, draw_case, draw_cases, one_hot_logits
from tests.matches.test_exact import check_expectations
from tests.oracles.enumeration import pooled_brevity_penalty


@pytest.mark.parametrize("max_order", [1, 2, 3, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_expectation_equals_the_enumeration(family, max_order):
    for case in draw_cases(10 + max_order, family, 12, eos=True):
        check_expectations(case, max_order, smoothing=1.0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("weights", [(0.0, 0.0, 0.0, 1.0), (0.5, 0.0, 0.5, 0.0)])
def test_weights_and_no_smoothing(family, weights):
    for case in draw_cases(19, family, 4, eos=True):
        for smoothing in (0.0, 0.5):
            check_expectations(case, 4, smoothing, list(weights))


@pytest.mark.parametrize("method", ["exact", "bound"])
def test_the_pooled_brevity_penalty_is_exact_for_one_reference_each(rng, method):
    """Batches of up to five sentences, the convolution of their lengths."""
    for batch in (1, 2, 3, 5):
        for _ in range(6):
            case = draw_case(rng, "random", eos=True, batch=batch)
            result = bleugrad.expected_bleu(case.logits, case.references, method=method, **case.keywords)
            assert_near(result.brevity_penalty, pooled_brevity_penalty(case.tables(4)), 1e-10)


def test_the_pooled_brevity_penalty_of_a_single_sentence_is_exact_for_several_references(rng):
    for _ in range(25):
        case = draw_case(rng, "several", eos=True, batch=1)
        (table,) = case.tables(4)
        result = bleugrad.expected_bleu(case.logits, case.references, **case.keywords)
        assert_near(result.brevity_penalty, table.mean(table.penalties), 1e-10)


def test_a_sure_eos_cuts_like_a_shorter_table(rng):
    """EOS of probability 1 at some position: all results are those of the rows before it."""
    for _ in range(20):
        steps, vocabulary, eos_id = 6, 4, 3
        logits = torch.from_numpy(rng.normal(size=(2, steps, vocabulary)))
        logits[..., eos_id] = -torch.inf
        end = int(rng.integers(0, steps))
        logits[:, end] = one_hot_logits([eos_id, eos_id], vocabulary)
        mask = torch.arange(steps).expand(2, steps) < end
        references = [[rng.integers(0, 3, size=4).tolist()] for _ in range(2)]
        for method in ("exact", "bound"):
            sure = bleugrad.expected_bleu(logits, references, method=method, eos_id=eos_id)
            assert_same(sure, bleugrad.expected_bleu(logits, references, method=method, mask=mask))


@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("level", ["sentence", "corpus"])
def test_an_eos_of_probability_zero_is_a_fixed_length(rng, method, level):
    logits = torch.from_numpy(rng.normal(size=(3, 6, 4)))
    logits[..., 2] = -torch.inf
    references = [[[0, 1, 0, 1]], [[3, 3]], [[1, 0], [3, 1, 0, 0, 1]]]
    options = {"method": method, "level": level}
    fixed = bleugrad.expected_bleu(logits, references, **options)
    assert_same(bleugrad.expected_bleu(logits, references, eos_id=2, **options), fixed)


def test_references_are_cut_at_their_first_eos(rng):
    logits = torch.from_numpy(rng.normal(size=(1, 5, 4)))
    expected = bleugrad.expected_bleu(logits, [[0, 1]], eos_id=3)
    for reference in ([0, 1, 3], [0, 1, 3, 3, 2], [0, 1, 3, 0, 1, 3]):
        assert_same(bleugrad.expected_bleu(logits, [reference], eos_id=3), expected)
    assert bleugrad.expected_bleu(logits, [[0, 1, 3]]).reference_lengths.tolist() == [3.0]


def test_only_counted_positions_can_end_the_sentence(rng):
    """A masked-out EOS ends nothing."""
    logits = torch.from_numpy(rng.normal(size=(1, 5, 3)))
    logits[:, 2] = one_hot_logits([2], 3)
    mask = torch.tensor([[True, True, False, True, True]])
    check_expectations(Case(logits, [[[0, 1, 0]]], mask, 2), 3)
    result = bleugrad.expected_bleu(logits, [[0, 1, 0]], mask=mask, eos_id=2)
    assert result.hypothesis_lengths.item() > 1


def test_lengths_of_a_long_sentence_by_the_geometric_series():
    steps, stop = 60, 0.1
    logits = torch.tensor([1 - stop, stop], dtype=torch.float64).log().expand(1, steps, 2)
    result = bleugrad.expected_bleu(logits, [[0] * 10], eos_id=1, level="sentence")
    alive = (1 - stop) ** np.arange(1, steps + 1)
    assert_near(result.hypothesis_lengths, [alive.sum()], 1e-12)
    assert_near(result.totals, [[alive[n:].sum() for n in range(4)]], 1e-12)
    chance = np.append(1.0, alive) * np.append(np.full(steps, stop), 1.0)
    penalty = [0.0] + [min(1.0, np.exp(1 - 10 / length)) for length in range(1, steps + 1)]
    assert_near(result.brevity_penalty, [chance @ penalty], 1e-12)
