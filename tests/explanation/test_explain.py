"""The explanation's numbers against enumeration, loops, finite differences and the loss itself."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import bleugrad
from bleugrad.explanation import contributions
from bleugrad.explanation.explain import explain
from tests.explanation.cases import random_rows
from tests.oracles.bound import window_probabilities
from tests.oracles.counting import clip_counts
from tests.oracles.enumeration import count_occurrences, enumerate_sequences, enumerate_statistics

REFERENCES = ([0, 1, 0, 1, 2], [0, 0, 0], [[0, 1, 0, 1], [2, 0, 1]])
STARTS = torch.tensor([True, False, True, True])


def as_lists(reference):
    return reference if isinstance(reference[0], list) else [reference]


def ids_of(ngram):
    return tuple(map(int, ngram.text))


@pytest.mark.parametrize("eos_id", [None, 3])
@pytest.mark.parametrize("reference", REFERENCES, ids=str)
def test_each_ngram_has_its_enumerated_expectation(rng, reference, eos_id):
    logits, probs = random_rows(rng, 5, 4)
    sequences, weights = enumerate_sequences(probs, eos_id)
    for order in explain(logits, reference, eos_id=eos_id, samples=0).orders:
        clips = clip_counts(as_lists(reference), order.number)
        assert {ids_of(ngram): ngram.clip for ngram in order.ngrams} == dict(clips)
        for ngram in order.ngrams:
            counts = np.minimum(count_occurrences(sequences, ids_of(ngram)), ngram.clip)
            assert ngram.exact == pytest.approx(weights @ counts, abs=1e-13)


@pytest.mark.parametrize("reference", REFERENCES, ids=str)
def test_each_ngram_has_the_bound_of_the_formula(rng, reference):
    logits, probs = random_rows(rng, 5, 4)
    above = 0
    for order in explain(logits, reference, samples=0).orders:
        for ngram in order.ngrams:
            q = window_probabilities(probs, ids_of(ngram))
            expected = sum(value * min(1, ngram.clip / (1 + sum(q) - value)) for value in q)
            assert ngram.bound == pytest.approx(expected, abs=1e-14)
            assert ngram.above == (expected > ngram.exact + 1e-12)
            above += ngram.above
    assert above > 0, "a reference with repeats has bounds above the truth"


@pytest.mark.parametrize("elements", [1, 2**22], ids=["one at a time", "all at once"])
@pytest.mark.parametrize("reference", REFERENCES, ids=str)
@pytest.mark.parametrize("word_start", [None, STARTS], ids=["tokens", "words"])
@pytest.mark.parametrize("eos_id", [None, 3])
def test_contributions_sum_to_the_matches_of_the_loss(rng, monkeypatch, reference, word_start, eos_id, elements):
    monkeypatch.setattr(contributions, "BLOCK_ELEMENTS", elements)
    logits, _ = random_rows(rng, 6, 4)
    options = {"eos_id": eos_id, "word_start": word_start}
    seen = explain(logits, reference, samples=0, **options)
    for method in ("exact", "bound"):
        result = bleugrad.expected_bleu(logits[None], [reference], method=method, level="sentence", **options)
        sums = [sum(getattr(ngram, method) for ngram in order.ngrams) for order in seen.orders]
        assert sums == pytest.approx(result.matches[0].tolist(), abs=1e-13)
        assert [getattr(order, method) for order in seen.orders] == result.matches[0].tolist()
        value = seen.value if method == "exact" else seen.bound_value
        assert value == pytest.approx(result.value.item(), abs=1e-15)
    assert (seen.lower, seen.upper) == (result.lower.item(), result.upper.item())
    assert seen.expected_length == result.hypothesis_lengths.item()


@pytest.mark.parametrize("eos_id", [None, 3])
def test_expected_bleu_is_in_the_interval_and_near_the_sampled_mean(rng, eos_id):
    logits, probs = random_rows(rng, 5, 4)
    reference = [0, 1, 0, 1, 2]
    seen = explain(logits, reference, eos_id=eos_id, samples=4000)
    everything = enumerate_statistics(probs, [reference], eos_id=eos_id)
    truth = everything.mean(everything.bleu(smoothing=1.0))
    assert seen.lower <= truth <= seen.upper
    assert 0 < seen.sampled.standard_error < 0.01
    assert abs(seen.sampled.mean - truth) < 4 * seen.sampled.standard_error
    assert seen.expected_length == pytest.approx(everything.mean(everything.lengths))
    assert seen.brevity_penalty == pytest.approx(everything.mean(everything.penalties))
    best = tuple(probs.argmax(1).tolist())
    kept = best if eos_id is None or eos_id not in best else best[: best.index(eos_id)]
    argmax = bleugrad.bleu([kept], [reference], smoothing=1.0, level="sentence").value.item()
    assert seen.argmax_value == pytest.approx(argmax)


@pytest.mark.parametrize("eos_id", [None, 3])
def test_the_gradient_is_that_of_the_loss(rng, eos_id):
    logits, _ = random_rows(rng, 4, 4)
    reference = [0, 1, 0, 2]
    seen = explain(logits, reference, eos_id=eos_id, samples=0)

    def loss(values):
        return 1 - bleugrad.expected_bleu(values[None], [reference], eos_id=eos_id).value.item()

    step, slope = 1e-6, np.zeros(logits.shape)
    for place in np.ndindex(*logits.shape):
        moved = torch.zeros_like(logits)
        moved[place] = step
        slope[place] = (loss(logits + moved) - loss(logits - moved)) / (2 * step)
    assert seen.gradient.numpy() == pytest.approx(slope[:, reference], abs=1e-9)
    assert seen.gradient_norm.numpy() == pytest.approx(np.linalg.norm(slope, axis=1), abs=1e-9)
    if eos_id is None:
        assert seen.eos_gradient is None
    else:
        assert seen.eos_gradient.numpy() == pytest.approx(slope[:, eos_id], abs=1e-9)


def test_windows_are_products_and_end_with_their_reference(rng):
    logits, probs = random_rows(rng, 5, 4)
    seen = explain(logits, [[0, 1, 2], [3, 0]], samples=0)
    columns = [0, 1, 2, 3, 0]
    assert seen.match_probs.numpy() == pytest.approx(probs[:, columns])
    windows = seen.orders[1].windows
    for t, j in np.ndindex(5, 5):
        if t + 1 < 5 and j in (0, 1, 3):
            expected = probs[t, columns[j]] * probs[t + 1, columns[j + 1]]
            assert windows[t, j].item() == pytest.approx(expected)
        else:
            assert windows[t, j].isnan()
    assert [ngram.columns for ngram in seen.orders[0].ngrams] == [(0, 4), (1,), (2,), (3,)]


def test_windows_of_words_are_followed_by_an_opening_token(rng):
    logits, probs = random_rows(rng, 4, 4)
    seen = explain(logits, [0, 1, 2], word_start=STARTS, samples=0, score=bleugrad.BLEU(1))
    assert seen.units == (("01", "2"),)
    opening = probs[:, STARTS.numpy()].sum(1)
    expected = [probs[t, 0] * probs[t + 1, 1] * (opening[t + 2] if t + 2 < 4 else 1) for t in range(3)]
    assert seen.orders[0].windows[:3, 0].numpy() == pytest.approx(np.array(expected))
    assert seen.orders[0].windows[3, 0].isnan()


def test_positions_are_named_by_their_likeliest_token(rng):
    logits, probs = random_rows(rng, 4, 3)
    seen = explain(logits, [0, 2], vocabulary=["x", "y", "z"], samples=0)
    assert seen.argmax == tuple("xyz"[index] for index in probs.argmax(1))
    assert seen.references == (("x", "z"),)
    assert seen.argmax_probs.numpy() == pytest.approx(probs.max(1))
    assert explain(logits, [0, 2], samples=0).references == (("0", "2"),)


def test_the_position_is_reached_unless_an_end_came_before(rng):
    logits, probs = random_rows(rng, 4, 4)
    reach = explain(logits, [0, 1], eos_id=3, samples=0).reach.tolist()
    assert reach[0] == 1
    for t, (before, after) in enumerate(pairwise(reach)):
        assert after == pytest.approx(before * (1 - probs[t, 3]))


def test_samples_are_repeatable_and_leave_the_global_generator_alone(rng):
    logits, _ = random_rows(rng, 4, 4)
    state = torch.random.get_rng_state()
    first, second = (explain(logits, [0, 1], samples=50).sampled for _ in range(2))
    assert first == second
    assert first != explain(logits, [0, 1], samples=60).sampled
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_callers_logits_are_neither_changed_nor_given_a_gradient():
    logits = torch.randn(3, 4, requires_grad=True)
    before = logits.detach().clone()
    with torch.no_grad():
        explain(logits, [0, 1])
    assert logits.grad is None
    assert torch.equal(logits, before)


LOGITS = torch.zeros(3, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"logits": torch.zeros(1, 3, 4)}, r"logits has shape \(1, 3, 4\); expected \(T, V\)"),
        ({"logits": torch.zeros(0, 4)}, "expected at least one position"),
        ({"logits": torch.full((3, 4), torch.nan)}, "NaN"),
        ({"references": [4]}, "references holds the id 4; expected ids below the vocabulary size 4"),
        ({"references": []}, "references is empty"),
        ({"references": [3, 1], "eos_id": 3}, "references is empty"),
        ({"vocabulary": ["a"]}, "vocabulary has 1 entries; expected 4, the logits' V"),
        ({"samples": 1}, "samples is 1; expected 0, or 2 or more"),
        ({"samples": 2**62}, "samples is 4611686018427387904"),
    ],
)
def test_mistakes_are_named(arguments, message):
    given = {"logits": LOGITS, "references": [0, 1]} | arguments
    with pytest.raises(ValueError, match=message):
        explain(given.pop("logits"), given.pop("references"), **given)
    with pytest.raises(TypeError, match="vocabulary is a str; expected a list of texts"):
        explain(LOGITS, [0, 1], vocabulary="abcd")


@pytest.mark.parametrize("name", ["ROUGE", "GLEU", "NIST"])
def test_another_score_is_explained(name):
    """Value, gradient, samples and argmax are of the score; n-grams are as for BLEU."""
    score = {
        "ROUGE": bleugrad.ROUGE(2, "f1"),
        "GLEU": bleugrad.GLEU(3),
        "NIST": bleugrad.NIST({(0,): 1.0, (1,): 2.0, (0, 1): 0.5}, 2),
    }[name]
    torch.manual_seed(3)
    logits = torch.randn(4, 3, dtype=torch.float64)
    seen = bleugrad.explain(logits, [0, 1, 0], score=score, eos_id=2, samples=400)
    leaf = logits.clone().requires_grad_()
    value = bleugrad.expected_score(leaf[None], [[0, 1, 0]], score, eos_id=2, level="sentence").value
    (gradient,) = torch.autograd.grad(1 - value.sum(), leaf)
    assert seen.value == pytest.approx(value.item(), abs=1e-12)
    torch.testing.assert_close(seen.gradient_norm, gradient.norm(dim=1), rtol=0, atol=1e-12)
    assert abs(seen.sampled.mean - seen.value) < 4 * seen.sampled.standard_error  # 1 in 16,000
    assert len(seen.orders) == score.max_order
    assert (seen.lower, seen.upper, seen.score) == (None, None, repr(score))
    assert f"E[{name}(" in seen.text()
    assert "certified" not in seen.text()
    assert f"{name}(" in repr(seen)
    assert f'"score":"{name}(' in seen.html()
