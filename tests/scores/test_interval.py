"""[lower, upper] contains the true E[sentence BLEU] in every case, and is as tight as the mathematics page states."""

import itertools
import math

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import FAMILIES, STATISTICS, assert_near, assert_same, draw_case, draw_cases, one_hot_logits
from tests.oracles import counting

SMOOTHINGS = (0.0, 0.5, 1.0)
WEIGHTS = (None, [0.0, 0.0, 0.0, 1.0], [0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.1, 0.0, 0.6, 0.3])
SLACK = 1e-12


@pytest.mark.parametrize("eos", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_truth_lies_in_the_interval(family, eos):
    for case in draw_cases(40, family, 12, eos=eos):
        tables = case.tables(4)
        for weights in WEIGHTS:
            for smoothing in SMOOTHINGS:
                truth = np.array([table.mean(table.bleu(weights, smoothing)) for table in tables])
                options = {"weights": weights, "smoothing": smoothing, **case.keywords}
                result = bleugrad.expected_bleu(case.logits, case.references, **options)
                assert result.upper.shape == (case.batch,)
                assert (result.upper.numpy() >= truth - SLACK).all()
                if result.lower is not None:
                    assert result.lower.shape == (case.batch,)
                    assert (result.lower.numpy() <= truth + SLACK).all()


def certificate(table, references, weights, smoothing):
    """(lower, upper) of MATH section 4, certified length by length and mixed."""
    weights = weights or [0.25] * 4
    highest = max(n for n, weight in enumerate(weights) if weight > 0)
    lower = upper = 0.0
    for mass, given in table.by_length():
        e, totals, penalty = given.mean(given.matches), given.totals[0], given.penalties[0]
        upper += mass * counting.combine(e, totals, penalty, weights, smoothing)
        if smoothing == 0:  # O_1 >= O_2 >= ...
            if totals[highest] > 0:
                lower += mass * penalty * e[highest] / math.prod(m**w for m, w in zip(totals, weights, strict=True))
            continue
        exponent = 0.0
        for n, weight in enumerate(weights):  # log(O + s) lies above its chord on [0, most]
            most = min(totals[n], sum(counting.clip_counts(references, n + 1).values()))
            rise = e[n] / most * math.log(1 + most / smoothing) if most > 0 else 0.0
            exponent += weight * (math.log(smoothing) + rise - math.log(totals[n] + smoothing))
        lower += mass * penalty * math.exp(exponent)
    return lower, upper


@pytest.mark.parametrize("eos", [False, True])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_as_tight_as_the_formulas(family, smoothing, eos):
    for case in draw_cases(41, family, 6, eos=eos):
        tables = case.tables(4)
        for weights in WEIGHTS:
            options = {"weights": weights, "smoothing": smoothing, **case.keywords}
            result = bleugrad.expected_bleu(case.logits, case.references, **options)
            for b, table in enumerate(tables):
                lower, upper = certificate(table, case.cut_references(b), weights, smoothing)
                assert result.upper[b] <= upper + 1e-10
                if result.lower is not None:
                    assert result.lower[b] >= lower - 1e-10


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_at_a_fixed_length_the_upper_bound_is_the_exact_surrogate(rng, smoothing):
    for family in FAMILIES:
        case = draw_case(rng, family)
        options = {"smoothing": smoothing, "level": "sentence", **case.keywords}
        result = bleugrad.expected_bleu(case.logits, case.references, **options)
        assert_near(result.upper, result.value.tolist(), 1e-12)


@pytest.mark.parametrize("eos_id", [None, 3])
def test_the_level_changes_neither_end(rng, eos_id):
    logits = torch.from_numpy(rng.normal(size=(3, 5, 4)))
    references = rng.integers(0, 3, size=(3, 4)).tolist()
    for smoothing in SMOOTHINGS:
        sentence, corpus = (
            bleugrad.expected_bleu(logits, references, level=level, smoothing=smoothing, eos_id=eos_id)
            for level in ("sentence", "corpus")
        )
        assert_near(sentence.lower, corpus.lower.tolist(), 1e-15)
        assert_near(sentence.upper, corpus.upper.tolist(), 1e-15)


@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("eos_id", [None, 3])
def test_lower_is_none_only_for_several_references_without_smoothing(method, eos_id):
    logits = torch.zeros(2, 4, 4)
    single, several = [[[0, 1]], [[2]]], [[[0, 1]], [[2], [1, 0]]]
    for references, smoothing, absent in (
        (single, 0.0, False),
        (single, 1.0, False),
        (several, 0.0, True),
        (several, 0.5, False),
        (several, 1.0, False),
    ):
        options = {"method": method, "smoothing": smoothing, "eos_id": eos_id}
        result = bleugrad.expected_bleu(logits, references, **options)
        assert (result.lower is None) == absent
        assert result.upper is not None


def test_the_chain_behind_lower_breaks_for_several_references():
    """a b a c a against `a b`, `b a`, `a c`, `c a`: O_1 = 3 < O_2 = 4; O_2 / sqrt(M_1 M_2) is above BLEU."""
    references = [[[0, 1], [1, 0], [0, 2], [2, 0]]]
    result = bleugrad.bleu([[0, 1, 0, 2, 0]], references, max_order=2, smoothing=0, level="sentence")
    assert result.matches.tolist() == [[3, 4]]
    assert 4 / math.sqrt(5 * 4) > result.value.item() + 0.1


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_the_interval_closes_on_a_perfect_hypothesis(smoothing):
    """One-hot rows that spell the reference: E[BLEU] = 1 = upper; lower is positive and never above."""
    tokens = [[0, 1, 2, 3, 0, 1]]
    result = bleugrad.expected_bleu(one_hot_logits(tokens, 4), tokens, smoothing=smoothing)
    assert_near(result.upper, [1.0], 1e-12)
    assert 0.3 < result.lower.item() <= 1 + SLACK


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_empty_hypotheses_and_references_are_certified(smoothing):
    """If no position counts, BLEU is 0 against a reference, and 1 (smoothed) or 0 against an empty one."""
    logits, mask = torch.zeros(2, 3, 2, dtype=torch.float64), torch.zeros(2, 3, dtype=torch.bool)
    result = bleugrad.expected_bleu(logits, [[0, 1], []], mask=mask, smoothing=smoothing)
    truth = [0.0, 1.0 if smoothing > 0 else 0.0]
    assert_near(result.lower, truth, SLACK)
    assert_near(result.upper, truth, SLACK)


def extreme_batches(rng):
    """float32 batches with options: flat to one-hot rows, certain and rare ends, few and many words."""
    for scale, favour, end in itertools.product((0.1, 3.0, 30.0), (0.0, 15.0), (None, -20.0, 5.0, 17.0)):
        steps, vocabulary = int(rng.choice([1, 4, 25])), int(rng.choice([3, 20]))
        references = torch.from_numpy(rng.integers(1, vocabulary, size=(2, steps)))
        logits = torch.from_numpy(rng.normal(size=(2, steps, vocabulary)) * scale).float()
        logits.scatter_add_(2, references[..., None], torch.full((2, steps, 1), favour))
        if end is not None:
            logits[..., 0] += end
        for share in (None, 0.2, 1.0):
            opens = None if share is None else torch.from_numpy(rng.random(vocabulary) < share)
            yield logits, references, {"eos_id": None if end is None else 0, "word_start": opens}


@pytest.mark.parametrize("smoothing", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize("kernels", ["1", "0"])
def test_the_float32_interval_holds_the_float64_one(rng, monkeypatch, kernels, smoothing):
    monkeypatch.setenv("BLEUGRAD_KERNELS", kernels)
    for logits, references, options in extreme_batches(rng):
        rough, fine = (
            bleugrad.expected_bleu(x, references, smoothing=smoothing, **options) for x in (logits, logits.double())
        )
        assert (rough.lower.double() <= fine.lower).all()
        some = fine.matches.amin(1) if smoothing == 0 else 1.0  # E[BLEU] <= P(O_n > 0) <= E[O_n], which may underflow
        assert (rough.upper.double() >= fine.upper.clamp(max=some)).all()
        assert (rough.upper <= 1).all()
        assert (rough.lower >= 0).all()


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
@pytest.mark.parametrize("kernels", ["1", "0"])
@pytest.mark.parametrize("eos_id", [None, 0])
def test_lower_in_words_is_that_of_tokens_where_every_token_is_a_word(rng, monkeypatch, kernels, eos_id, smoothing):
    """The probability of any other number of words is a rounding error, and so is its effect."""
    monkeypatch.setenv("BLEUGRAD_KERNELS", kernels)
    references = torch.from_numpy(rng.integers(1, 9, size=(3, 12)))
    logits = (
        torch.from_numpy(rng.normal(size=(3, 12, 9)))
        .float()
        .scatter_add_(2, references[..., None], torch.full((3, 12, 1), 5.0))
    )
    logits[..., 0] -= 12
    options = {"smoothing": smoothing, "eos_id": eos_id}
    tokens = bleugrad.expected_bleu(logits, references, **options)
    words = bleugrad.expected_bleu(logits, references, word_start=torch.ones(9, dtype=torch.bool), **options)
    assert (tokens.lower > 0.05).all()
    torch.testing.assert_close(words.lower, tokens.lower, rtol=1e-2, atol=0)


@pytest.mark.parametrize("eos_id", [None, 0])
def test_the_interval_may_be_left_out(seed, eos_id):
    logits, references = torch.randn(2, 5, 4, dtype=torch.float64), [[1, 2, 3], [2, 2]]
    whole, without = (
        bleugrad.expected_bleu(logits, references, eos_id=eos_id, interval=asked) for asked in (True, False)
    )
    assert without.lower is None
    assert without.upper is None
    assert_same(without, whole, atol=0, fields=STATISTICS)
