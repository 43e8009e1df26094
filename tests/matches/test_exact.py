"""Exact expectations at a fixed length, against full enumeration and, for long sentences, an automaton."""

import dataclasses

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import FAMILIES, Case, assert_near, assert_same, draw_cases, draw_reference
from tests.oracles import automaton, counting
from tests.oracles.enumeration import enumerate_statistics, pooled_brevity_penalty


def check_expectations(case, max_order, smoothing=1.0, weights=None):
    """Every field of both levels against the enumeration of all sequences, to 1e-10."""
    options = {"max_order": max_order, "smoothing": smoothing, "weights": weights, **case.keywords}
    tables = case.tables(max_order)
    matches = np.array([table.mean(table.matches) for table in tables])
    totals = np.array([table.mean(table.totals) for table in tables])
    penalties = [table.mean(table.penalties) for table in tables]
    for level in ("sentence", "corpus"):
        result = bleugrad.expected_bleu(case.logits, case.references, level=level, **options)
        assert_near(result.matches, matches, label="matches")
        assert_near(result.totals, totals, label="totals")
        assert_near(result.hypothesis_lengths, [t.mean(t.lengths) for t in tables], label="hypothesis_lengths")
        assert_near(result.reference_lengths, [t.mean(t.reference_lengths) for t in tables], label="reference_lengths")
        assert result.value.dtype == result.matches.dtype == torch.float64
        if level == "sentence":
            assert_near(result.brevity_penalty, penalties, label="brevity_penalty")
            ratios = [counting.precisions(o, m, smoothing) for o, m in zip(matches, totals, strict=True)]
            values = [
                counting.combine(o, m, penalty, weights, smoothing)
                for o, m, penalty in zip(matches, totals, penalties, strict=True)
            ]
        else:
            pooled = pooled_brevity_penalty(tables)
            if case.eos_id is None or case.single:  # where the contract promises the exact expectation
                assert_near(result.brevity_penalty, pooled, label="pooled brevity_penalty")
            else:
                pooled = result.brevity_penalty.item()
                assert 0 <= pooled <= 1
            ratios = counting.precisions(matches.sum(0), totals.sum(0), smoothing)
            values = counting.combine(matches.sum(0), totals.sum(0), pooled, weights, smoothing)
        assert_near(result.precisions, ratios, label="precisions")
        assert_near(result.value, values, label="value")


@pytest.mark.parametrize("max_order", [1, 2, 3, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_expectation_equals_the_enumeration(family, max_order):
    for case in draw_cases(max_order, family, 12):
        check_expectations(case, max_order, smoothing=1.0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("weights", [(0.0, 0.0, 0.0, 1.0), (0.5, 0.0, 0.5, 0.0), (0.1, 0.2, 0.3, 0.4)])
def test_weights_and_no_smoothing(family, weights):
    for case in draw_cases(9, family, 4):
        for smoothing in (0.0, 0.5):
            check_expectations(case, 4, smoothing, list(weights))


@pytest.mark.parametrize(
    ("reference", "steps"),
    [
        ("aaa", 5),
        ("aaaaaa", 6),
        ("aaaa", 2),
        ("abab", 6),
        ("ababab", 5),
        ("abaaba", 6),
        ("aabaab", 6),
        ("ab", 6),
    ],
)
def test_self_overlapping_references(reference, steps):
    """Runs and periods, where windows of the same n-gram overlap, at flat and at peaked rows."""
    tokens = ["ab".index(letter) for letter in reference]
    rng = np.random.default_rng(len(reference))
    for scale in (0.0, 1.0, 4.0):
        logits = torch.from_numpy(scale * rng.normal(size=(1, steps, 3)))
        check_expectations(Case(logits, [[tokens]]), 4)


def test_by_hand():
    """Reference `a a`, p(a) = 1/2, three positions: 3/8 * 1 + 4/8 * 2, and `a a` in 3 of 8 sequences."""
    result = bleugrad.expected_bleu(torch.zeros(1, 3, 2, dtype=torch.float64), [[0, 0]], max_order=2)
    assert_near(result.matches, [[1.375, 0.375]], 1e-15)


def test_a_word_that_cannot_be_clipped_counts_linearly(rng):
    """With more copies in the reference than positions, E[O_1] is the sum of its probabilities."""
    logits = torch.from_numpy(rng.normal(size=(1, 50, 7)))
    result = bleugrad.expected_bleu(logits, [[3] * 60], max_order=2)
    p = logits.softmax(-1)[0, :, 3]
    assert_near(result.matches, [[p.sum().item(), (p[1:] * p[:-1]).sum().item()]], 1e-12)


@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("family", ["random", "self-overlapping"])
@pytest.mark.parametrize(("steps", "length", "vocabulary"), [(23, 17, 4), (40, 30, 12), (9, 40, 3), (31, 6, 2)])
def test_sentences_of_real_length_equal_the_automaton(family, eos_id, steps, length, vocabulary):
    """Long runs of the recursion, repeated words with clips of up to forty, several references."""
    rng = np.random.default_rng(steps)
    words = [v for v in range(vocabulary) if v != eos_id]
    logits = rng.normal(size=(2, steps, vocabulary))
    if eos_id is not None:
        logits[..., eos_id] -= 2.0  # long enough sentences
    references = [
        [draw_reference(rng, words, family, longest=2 * length)],
        [draw_reference(rng, words, family, longest=length) for _ in range(2)],
    ]
    case = Case(torch.from_numpy(logits), references, eos_id=eos_id)
    result = bleugrad.expected_bleu(case.logits, references, eos_id=eos_id)
    exact = [[automaton.expected_matches(case.rows(b), references[b], n, eos_id) for n in (1, 2, 3, 4)] for b in (0, 1)]
    assert_near(result.matches, exact, 1e-10)


def test_orders_above_the_usual_four(rng):
    logits = torch.from_numpy(rng.normal(size=(2, 6, 3)))
    check_expectations(Case(logits, [[[0, 1, 0, 1, 0, 1, 0]], [[1] * 8]]), 6)


@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("eos_id", [None, 1])
@pytest.mark.parametrize("level", ["sentence", "corpus"])
def test_no_positions_at_all_are_no_counted_positions(method, eos_id, level):
    options = {"method": method, "eos_id": eos_id, "level": level}
    references = [[0, 2], []]
    nothing = bleugrad.expected_bleu(torch.zeros(2, 0, 3), references, **options)
    mask = torch.zeros(2, 5, dtype=torch.bool)
    assert_same(nothing, bleugrad.expected_bleu(torch.zeros(2, 5, 3), references, mask=mask, **options))


def test_a_token_of_logit_minus_infinity_has_probability_zero(rng):
    logits = torch.from_numpy(rng.normal(size=(2, 5, 4)))
    logits[..., 3] = -torch.inf
    references = [[[0, 3, 1]], [[2, 2, 1]]]
    result = bleugrad.expected_bleu(logits, references)
    for b in (0, 1):
        rows = Case(logits, references).rows(b)
        assert (rows[:, 3] == 0).all()
        table = enumerate_statistics(rows, references[b])
        assert_near(result.matches[b], table.mean(table.matches))


def test_defaults_are_exact_corpus_level_order_four_and_smoothing_one(rng):
    logits = torch.from_numpy(rng.normal(size=(2, 5, 3)))
    references = [[0, 1, 2, 0, 1], [1, 1]]
    spelled = bleugrad.expected_bleu(
        logits, references, method="exact", mask=None, eos_id=None, max_order=4, weights=[0.25] * 4,
        smoothing=1.0, level="corpus", ignore_index=-100,
    )  # fmt: skip
    default = bleugrad.expected_bleu(logits, references)
    assert default.value.shape == ()
    assert default.value == spelled.value
    assert default.matches.shape == (2, 4)


def test_the_result_cannot_be_changed():
    result = bleugrad.expected_bleu(torch.zeros(1, 2, 2), [[0]])
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.value = 0


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("eos_id", [None, 0])
def test_without_any_reference_token_nothing_matches(eos_id, projected):
    logits = torch.zeros(2, 3, 4, dtype=torch.float64, requires_grad=True)
    output = bleugrad.Projection(logits, torch.eye(4, dtype=torch.float64)) if projected else logits
    found = bleugrad.expected_bleu(output, [[], []], eos_id=eos_id, max_order=2)
    found.value.sum().backward()
    assert found.matches.tolist() == [[0, 0], [0, 0]]
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("kernels", ["1", "0"])
def test_words_of_no_positions_have_a_gradient(monkeypatch, kernels):
    monkeypatch.setenv("BLEUGRAD_KERNELS", kernels)
    logits = torch.zeros(2, 0, 3, requires_grad=True)
    found = bleugrad.expected_bleu(logits, [[0], []], word_start=torch.tensor([True, False, True]))
    found.value.backward()
    assert logits.grad.shape == (2, 0, 3)
