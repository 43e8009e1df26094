"""Tests over seeds and over sentences, against cases worked out by hand and against sacreBLEU."""

import math

import numpy as np
import pytest
import sacrebleu

from bleugrad.lab.experiments.paper.significance import (
    Bootstrap,
    bootstrap_p,
    corpus_bleu,
    interval,
    paired_t,
    sentence_statistics,
    student_critical,
    student_p,
)

HYPOTHESES = ["a cat sat on the mat", "the dog", "we see a house", "no", "they run in the big park now"]
OTHERS = ["a cat sat on a mat", "the dogs ran", "we see the house", "no", "they ran in the park now"]
REFERENCES = [
    ("a cat sat on the mat", "the cat was on the mat"),
    ("the dog ran",),
    ("we see a house",),
    ("no",),
    ("they run in the park now", "they run now"),
]


@pytest.mark.parametrize(
    ("freedom", "level", "critical"),
    [(1, 0.05, 12.7062), (2, 0.05, 4.3027), (3, 0.05, 3.1824), (7, 0.05, 2.3646), (7, 0.01, 3.4995), (30, 0.1, 1.6973)],
)
def test_critical_values_are_those_of_the_tables(freedom, level, critical):
    assert student_critical(freedom, level) == pytest.approx(critical, abs=1e-4)
    assert student_p(critical, freedom) == pytest.approx(level, rel=1e-4)
    assert student_p(-critical, freedom) == student_p(critical, freedom)


def test_one_and_two_degrees_of_freedom_have_closed_forms():
    for t in (0.0, 0.3, 1.0, 5.0):
        assert student_p(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, abs=1e-12)
        assert student_p(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-12)


def test_the_paired_test_by_hand():
    # Differences 1, 2, 3: mean 2, deviation 1, t = 2 sqrt 3 with 2 degrees of freedom, p = 1 - t / sqrt(2 + t^2).
    found = paired_t([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    t = 2 * math.sqrt(3)
    assert found.difference == 2
    assert found.p == pytest.approx(1 - t / math.sqrt(2 + t * t))
    assert found.smallest == pytest.approx(4.30265 / math.sqrt(3), rel=1e-4)
    assert found.p > 0.05
    assert found.difference < found.smallest


def test_a_difference_at_the_limit_is_what_the_test_can_show():
    noise = np.array([-1.0, 0.0, 1.0, 0.5, -0.5])
    smallest = paired_t(noise, [0.0] * 5).smallest
    assert paired_t(noise + smallest * 1.001, [0.0] * 5).p < 0.05
    assert paired_t(noise + smallest * 0.999, [0.0] * 5).p > 0.05


def test_seeds_that_say_nothing():
    assert paired_t([0.3], [0.2]).p is None
    assert paired_t([0.3], [0.2]).smallest is None
    assert paired_t([0.3, 0.2], [0.3, 0.2]).p == 1
    assert paired_t([0.3, 0.2], [0.2, 0.1]).p == 0


def test_sentence_statistics_sum_to_the_corpus_score():
    statistics = sentence_statistics(HYPOTHESES, REFERENCES)
    streams = [[of[0] for of in REFERENCES], [of[1] if len(of) > 1 else None for of in REFERENCES]]
    expected = sacrebleu.corpus_bleu(HYPOTHESES, streams, tokenize="none", force=True)
    assert corpus_bleu(statistics.sum(axis=0)) == pytest.approx(expected.score / 100, abs=1e-12)


def test_orders_without_a_match_are_smoothed_as_in_the_corpus_score():
    hypotheses, references = ["a b c d e", "x"], [("a b x d y",), ("z",)]
    expected = sacrebleu.corpus_bleu(hypotheses, [[of[0] for of in references]], tokenize="none", force=True)
    assert expected.score > 0
    assert expected.counts[3] == 0
    found = corpus_bleu(sentence_statistics(hypotheses, references).sum(axis=0))
    assert found == pytest.approx(expected.score / 100, abs=1e-12)


def test_resampled_sets_are_the_same_for_all_systems_and_of_full_size():
    bootstrap = Bootstrap(sentences=5, resamples=200)
    assert bootstrap.weights.shape == (200, 5)
    assert (bootstrap.weights.sum(axis=1) == 5).all()
    assert (Bootstrap(5, 200).weights == bootstrap.weights).all()
    row = bootstrap.weights[3]
    repeated = [index for index, times in enumerate(row) for _ in range(times)]
    expected = corpus_bleu(sentence_statistics(HYPOTHESES, REFERENCES)[repeated].sum(axis=0))
    assert bootstrap.scores([sentence_statistics(HYPOTHESES, REFERENCES)])[3] == pytest.approx(expected)


def test_scores_of_several_seeds_are_averaged():
    bootstrap = Bootstrap(5, 100)
    one, other = (sentence_statistics(lines, REFERENCES) for lines in (HYPOTHESES, OTHERS))
    both = bootstrap.scores([one, other])
    assert both == pytest.approx((bootstrap.scores([one]) + bootstrap.scores([other])) / 2)


def test_equal_outputs_are_equal():
    bootstrap = Bootstrap(5, 100)
    scores = bootstrap.scores([sentence_statistics(HYPOTHESES, REFERENCES)])
    assert bootstrap_p(0.0, scores, scores) == 1


def test_the_bootstrap_by_hand():
    # Differences -1, 0, 1, 2 with mean 0.5: moved to -1.5, -0.5, 0.5, 1.5. Two are at least 1 from 0.
    one, other = np.array([0.0, 1.0, 2.0, 3.0]), np.ones(4)
    assert bootstrap_p(1.0, one, other) == pytest.approx(3 / 5)
    assert bootstrap_p(-1.0, one, other) == pytest.approx(3 / 5)
    assert bootstrap_p(9.0, one, other) == pytest.approx(1 / 5)


def test_the_interval_leaves_out_a_fortieth_at_each_end():
    assert interval(np.linspace(0, 1, 1001)) == pytest.approx((0.025, 0.975))
