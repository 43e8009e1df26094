"""Tests of the oracles: values computed by hand, and agreement of oracles that share no code."""

import math

import numpy as np
import pytest

from tests.oracles import automaton, bound, counting, enumeration, words

HALF = [[0.5, 0.5]] * 3


def random_rows(rng, steps, vocabulary):
    return rng.dirichlet(np.full(vocabulary, 0.7), size=steps)


def random_references(rng, vocabulary, number=None, longest=6):
    sizes = rng.integers(0, longest + 1, size=number or rng.integers(1, 4))
    return [rng.integers(0, vocabulary, size=size).tolist() for size in sizes]


def test_counting_by_hand():
    the, cat, mat = 0, 1, 2
    # "the the the cat" against "the cat the mat": unigrams 2 + 1, bigrams "the cat" once, no trigram
    hypothesis, references = [the, the, the, cat], [[the, cat, the, mat]]
    matches, totals, c, r = counting.statistics(hypothesis, references, 3)
    assert (matches, totals, c, r) == ([3, 1, 0], [4, 3, 2], 4, 4)
    assert counting.sentence_bleu(hypothesis, references, 2) == pytest.approx(0.5)
    smoothed = math.sqrt(4 / 5 * 2 / 4)
    assert counting.sentence_bleu(hypothesis, references, 2, smoothing=1) == pytest.approx(smoothed)
    assert counting.sentence_bleu([the], [[the]], 4, weights=[1, 0, 0, 0]) == 1
    assert counting.sentence_bleu([the], [[the]], 4) == 0


def test_clip_is_the_maximum_over_references_and_not_the_sum():
    assert counting.statistics([0] * 5, [[0, 0], [0, 1, 0, 0], [2]], 1)[0] == [3]


def test_closest_length_by_hand():
    lengths = [[0] * size for size in (3, 5, 9)]
    assert [counting.closest_length(c, lengths) for c in (0, 3, 4, 5, 7, 8, 20)] == [3, 3, 3, 5, 5, 9, 9]
    assert counting.closest_length(1, [[], [0] * 4]) == 4  # an empty reference among others is absent
    assert counting.closest_length(1, [[], []]) == 0


def test_brevity_penalty_by_hand():
    assert [counting.brevity_penalty(c, r) for c, r in ((5, 4), (4, 4), (3, 0))] == [1, 1, 1]
    assert counting.brevity_penalty(2, 4) == pytest.approx(math.exp(-1))
    assert (counting.brevity_penalty(0, 4), counting.brevity_penalty(0, 0)) == (0, 1)


def test_corpus_bleu_pools_before_dividing():
    value = counting.corpus_bleu([[0, 1], [2]], [[[0, 1]], [[3, 3]]], max_order=1)
    assert value == pytest.approx(math.exp(1 - 4 / 3) * 2 / 3)


def test_enumeration_by_hand():
    table = enumeration.enumerate_statistics(HALF, [[0, 0]], max_order=2)
    # number of a's among three coins, clipped at two: 3/8 * 1 + 3/8 * 2 + 1/8 * 2; "aa" in 3 of 8 sequences
    np.testing.assert_allclose(table.mean(table.matches), [1.375, 3 / 8])
    np.testing.assert_allclose(table.mean(table.totals), [3, 2])
    assert table.mean(table.penalties) == pytest.approx(1)


def test_enumeration_with_eos_by_hand():
    table = enumeration.enumerate_statistics([[0.5, 0.5]] * 2, [[0, 0, 0, 1, 0]], max_order=1, eos_id=1)
    assert len(table.probs) == 3  # "", "a", "aa"
    np.testing.assert_allclose(sorted(table.probs), [0.25, 0.25, 0.5])
    assert table.mean(table.lengths) == pytest.approx(0.75)
    assert set(table.reference_lengths) == {3}
    assert table.mean(table.penalties) == pytest.approx(0.25 * math.exp(-2) + 0.25 * math.exp(-0.5))
    pooled = enumeration.pooled_brevity_penalty([table, table])
    by_hand = [0, 0.25 * math.exp(-5), 0.3125 * math.exp(-2), 0.125 * math.exp(-1), 0.0625 * math.exp(-0.5)]
    assert pooled == pytest.approx(sum(by_hand))


@pytest.mark.parametrize("eos_id", [None, 2])
def test_enumeration_agrees_with_counting_sequence_by_sequence(rng, eos_id):
    for _ in range(20):
        rows = random_rows(rng, rng.integers(0, 5), 3)
        references = random_references(rng, 3)
        table = enumeration.enumerate_statistics(rows, references, max_order=3, eos_id=eos_id)
        assert table.probs.sum() == pytest.approx(1)
        sequences, _ = enumeration.enumerate_sequences(rows, eos_id)
        cut = [counting.cut(reference, eos_id) for reference in references]
        for k, sequence in enumerate(sequences):
            hypothesis = [token for token in sequence.tolist() if token != enumeration.PAD]
            matches, totals, c, r = counting.statistics(hypothesis, cut, 3)
            assert table.matches[k].tolist() == matches
            assert table.totals[k].tolist() == totals
            assert (table.lengths[k], table.reference_lengths[k]) == (c, r)
            for smoothing in (0, 0.5):
                value = counting.sentence_bleu(hypothesis, cut, 3, [0.5, 0, 0.5], smoothing)
                assert table.bleu([0.5, 0, 0.5], smoothing)[k] == pytest.approx(value, abs=1e-14)


def test_pooled_brevity_penalty_agrees_with_all_pairs_of_sentences(rng):
    for _ in range(10):
        tables = [
            enumeration.enumerate_statistics(random_rows(rng, 4, 3), random_references(rng, 3), eos_id=0)
            for _ in range(2)
        ]
        first, second = tables
        pairs = sum(
            p * q * counting.brevity_penalty(first.lengths[i] + second.lengths[j],
                                             first.reference_lengths[i] + second.reference_lengths[j])
            for i, p in enumerate(first.probs) for j, q in enumerate(second.probs)
        )  # fmt: skip
        assert enumeration.pooled_brevity_penalty(tables) == pytest.approx(pairs, abs=1e-14)
        alone = enumeration.pooled_brevity_penalty([first])
        assert alone == pytest.approx(first.mean(first.penalties), abs=1e-14)


@pytest.mark.parametrize("eos_id", [None, 1])
def test_automaton_agrees_with_enumeration(rng, eos_id):
    for _ in range(60):
        rows = random_rows(rng, rng.integers(1, 7), 3)
        references = random_references(rng, rng.integers(1, 4), longest=9)
        table = enumeration.enumerate_statistics(rows, references, 4, eos_id)
        exact = [automaton.expected_matches(rows, references, n, eos_id) for n in (1, 2, 3, 4)]
        np.testing.assert_allclose(exact, table.mean(table.matches), atol=1e-13)


def test_bound_by_hand():
    assert bound.bound(HALF, [[0, 0]], 1) == pytest.approx(1.5)  # the counter-example: the truth is 1.375
    assert bound.bound(HALF, [[0]], 1) == pytest.approx(3 * 0.5 / 2)
    # a at p = 1/2, EOS at 1/2: sigma = (1/2, 1/4), q' = 1; windows 1/2 / (1 + 1/2) and 1/4 / (1 + 1)
    assert bound.bound_with_eos([[0.5, 0.5]] * 2, [[0]], 1, 1) == pytest.approx(1 / 3 + 1 / 8)


def test_bound_with_eos_of_probability_zero_is_the_bound(rng):
    for _ in range(20):
        rows = np.hstack([random_rows(rng, 5, 3), np.zeros((5, 1))])
        references = random_references(rng, 3)
        for n in (1, 2, 3, 4):
            fixed_length = bound.bound(rows, references, n)
            assert bound.bound_with_eos(rows, references, n, 3) == pytest.approx(fixed_length)


@pytest.mark.parametrize("eos_id", [None, 3])
def test_bound_is_exact_on_one_hot_rows_and_below_the_truth_for_distinct_words(rng, eos_id):
    for _ in range(40):
        references = random_references(rng, 4)
        hypothesis = rng.integers(0, 4, size=5)
        matches = counting.statistics(
            counting.cut(hypothesis.tolist(), eos_id), [counting.cut(r, eos_id) for r in references], 3
        )[0]
        distinct = [rng.permutation(3).tolist()]
        rows = random_rows(rng, 5, 4)
        table = enumeration.enumerate_statistics(rows, distinct, 3, eos_id)
        for n in (1, 2, 3):
            lower = bound.bound if eos_id is None else lambda *case: bound.bound_with_eos(*case, eos_id)
            assert lower(np.eye(4)[hypothesis], references, n) == pytest.approx(matches[n - 1])
            assert lower(rows, distinct, n) <= table.mean(table.matches)[n - 1] + 1e-12


def test_words_by_hand():
    opens = [True, True, False]
    assert words.split([2, 0, 2, 2, 1], opens) == [(2,), (0, 2, 2), (1,)]
    # reference "a", b continuing, two fair coins: a a and b a match
    table = words.enumerate_words([[0.5, 0.5]] * 2, [[0]], [True, False], max_order=1)
    np.testing.assert_allclose(table.mean(table.matches), [0.5])
    np.testing.assert_allclose(table.mean(table.lengths), 1.5)
    assert words.bound([[0.5, 0.5]] * 2, [[0]], [True, False], 1) == pytest.approx(1 / 6 + 2 / 5)


@pytest.mark.parametrize("eos_id", [None, 2])
def test_the_automaton_of_words_agrees_with_the_enumeration(rng, eos_id):
    for _ in range(20):
        rows, references = random_rows(rng, 5, 3), random_references(rng, 3)
        opens = (rng.random(3) < 0.5).tolist()
        table = words.enumerate_words(rows, references, opens, 4, eos_id)
        found = [words.expected_matches(rows, references, opens, n, eos_id) for n in range(1, 5)]
        np.testing.assert_allclose(found, table.mean(table.matches), rtol=0, atol=1e-12)


@pytest.mark.parametrize("eos_id", [None, 1])
def test_words_of_one_token_are_tokens(rng, eos_id):
    for _ in range(10):
        rows, references = random_rows(rng, 4, 3), random_references(rng, 3)
        table = words.enumerate_words(rows, references, [True] * 3, 4, eos_id)
        plain = enumeration.enumerate_statistics(rows, references, 4, eos_id)
        for name in ("probs", "matches", "totals", "lengths", "reference_lengths", "penalties"):
            np.testing.assert_allclose(getattr(table, name), getattr(plain, name))
        cut = [counting.cut(reference, eos_id) for reference in references]
        for n in range(1, 5):
            wanted = bound.bound(rows, cut, n) if eos_id is None else bound.bound_with_eos(rows, references, n, eos_id)
            assert words.bound(rows, references, [True] * 3, n, eos_id) == pytest.approx(wanted)
