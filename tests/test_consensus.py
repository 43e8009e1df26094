"""Minimum Bayes risk against every output written out: scores of rows, projections, CTC frames, graphs and samples."""

import itertools
from collections import defaultdict

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import assert_near
from tests.oracles.counting import brevity_penalty, combine, cut, statistics
from tests.oracles.one_pass import frame_outputs, path_outputs

CANDIDATES = [
    [[1, 2, 1], [1, 1, 1, 1], [2], [0, 1, 2, 1, 2, 1], []],
    [[2, 2], [1, 0], [0, 0, 0, 2, 2], [1, 2, 0]],  # one fewer
]


def row_outputs(rows, eos=None):
    """{output: probability} of independent rows (T, V), cut before the first EOS."""
    found = defaultdict(float)
    for tokens in itertools.product(range(rows.shape[1]), repeat=len(rows)):
        found[tuple(cut(tokens, eos))] += np.prod([rows[t, v] for t, v in enumerate(tokens)])
    return found


def expected(outputs, candidate, smoothing, penalty=None):
    """The formula, from every output with its probability."""
    tables = [(p, *statistics(candidate, [list(output)], 4)) for output, p in outputs.items()]
    matches = sum(p * np.array(found) for p, found, *_ in tables)
    totals = [max(len(candidate) - n, 0) for n in range(4)]
    if penalty is None:
        penalty = sum(p * brevity_penalty(len(candidate), len(output)) for output, p in outputs.items())
    return combine(matches, totals, penalty, smoothing=smoothing)


def logits_of(rng, steps=4, vocabulary=3):
    return torch.from_numpy(rng.normal(size=(2, steps, vocabulary)))


def graph_outputs(logits, transitions):
    steps = len(logits)
    probs = torch.zeros(steps, steps, dtype=torch.float64)
    for w in range(steps - 1):
        probs[w, w + 1 :] = transitions[w, w + 1 :].softmax(-1)
    return path_outputs(logits.softmax(-1).numpy(), probs.numpy())


def check(result, outputs, smoothing):
    for b, lists in enumerate(CANDIDATES):
        values = [expected(outputs[b], candidate, smoothing) for candidate in lists]
        assert_near(result.scores[b, : len(lists)], np.array(values), 1e-12, str(b))
        assert result.best[b] == int(np.argmax(values))
    assert result.scores[1, 4] == -torch.inf


@pytest.mark.parametrize("smoothing", [0.3, 1.0])
@pytest.mark.parametrize("eos", [None, 0])
def test_rows(rng, smoothing, eos):
    logits = logits_of(rng)
    mask = torch.tensor([[True] * 4, [True, True, False, True]])
    outputs = [row_outputs(logits[b, mask[b]].softmax(-1).numpy(), eos) for b in range(2)]
    candidates = CANDIDATES if eos is None else [[cut(one, eos) for one in some] for some in CANDIDATES]
    found = bleugrad.mbr(logits, CANDIDATES, mask=mask, eos_id=eos, smoothing=smoothing)
    for b, lists in enumerate(candidates):
        values = [expected(outputs[b], candidate, smoothing) for candidate in lists]
        assert_near(found.scores[b, : len(lists)], np.array(values), 1e-12, str(b))
        assert found.best[b] == int(np.argmax(values))


def test_a_projection_is_its_logits(rng):
    hidden, weight = torch.from_numpy(rng.normal(size=(2, 4, 5))), torch.from_numpy(rng.normal(size=(3, 5)))
    found = bleugrad.mbr(bleugrad.Projection(hidden, weight), CANDIDATES)
    torch.testing.assert_close(found.scores, bleugrad.mbr(hidden @ weight.T, CANDIDATES).scores, rtol=0, atol=1e-12)


def test_graphs(rng):
    logits, transitions = logits_of(rng, 5), torch.from_numpy(rng.normal(size=(2, 5, 5)))
    lengths = torch.tensor([5, 3])
    outputs = [graph_outputs(logits[b, :size], transitions[b, :size, :size]) for b, size in enumerate((5, 3))]
    check(bleugrad.mbr(bleugrad.Graph(logits, transitions, lengths=lengths), CANDIDATES, smoothing=0.5), outputs, 0.5)
    sharp = bleugrad.Graph(logits, transitions, lengths=lengths, sharpness=2.0)
    outputs = [graph_outputs(2 * logits[b, :size], transitions[b, :size, :size]) for b, size in enumerate((5, 3))]
    check(bleugrad.mbr(sharp, CANDIDATES, smoothing=0.5), outputs, 0.5)


def test_frames(rng):
    """Candidates of one length have the same penalty, a surrogate; the rest of the score is exact."""
    logits, lengths = logits_of(rng, 5, 4), torch.tensor([5, 3])
    candidates = [[[1, 2, 1], [1, 1, 3], [2, 3, 1]], [[2, 2], [1, 3], [3, 1]]]
    found = bleugrad.mbr(bleugrad.CTC(logits, blank_id=0, lengths=lengths), candidates).scores
    for b, size in enumerate((5, 3)):
        outputs = frame_outputs(logits[b, :size].softmax(-1).numpy(), 0)
        values = np.array([expected(outputs, candidate, 1.0, penalty=1.0) for candidate in candidates[b]])
        assert_near(found[b] / found[b, 0], values / values[0], 1e-12, str(b))
    one = bleugrad.mbr(bleugrad.CTC(logits[..., :2], blank_id=0), [[[1], [1, 1], []]] * 2).scores
    for b in range(2):  # the distribution of the length is exact
        outputs = frame_outputs(logits[b, :, :2].softmax(-1).numpy(), 0)
        assert_near(one[b], np.array([expected(outputs, h, 1.0) for h in ([1], [1, 1], [])]), 1e-12, str(b))


def test_samples(monkeypatch):
    samples = [[[1, 2, 1], [2, 2], [1, 2, 1]], [[0, 0]]]
    outputs = [{(1, 2, 1): 2 / 3, (2, 2): 1 / 3}, {(0, 0): 1.0}]

    def value(candidate, output):
        matches, totals, length, reference = statistics(candidate, [list(output)], 4)
        return combine(matches, totals, brevity_penalty(length, reference), smoothing=1.0)

    for pairs in (2**14, 1):
        monkeypatch.setattr("bleugrad.consensus.PAIRS", pairs)
        found = bleugrad.mbr(samples, CANDIDATES)
        for b, lists in enumerate(CANDIDATES):
            values = [sum(p * value(candidate, output) for output, p in outputs[b].items()) for candidate in lists]
            assert_near(found.scores[b, : len(lists)], np.array(values), 1e-12, str(b))
    padded = torch.tensor([[[1, 2, 1], [2, 2, -100]]])
    assert_near(bleugrad.mbr(padded, padded).scores, bleugrad.mbr([[[1, 2, 1], [2, 2]]], padded).scores, 0)


def test_words_of_rows_are_counted(rng):
    logits = torch.full((1, 3, 4), -50.0, dtype=torch.float64)
    logits[0, [0, 1, 2], [1, 2, 3]] = 50.0  # certainly 1 2 3
    word_start = torch.tensor([True, True, False, True])
    found = bleugrad.mbr(logits, [[[1, 2, 3], [1, 3, 3]]], word_start=word_start)
    wanted = bleugrad.bleu([[1, 2, 3], [1, 3, 3]], [[1, 2, 3]] * 2, level="sentence", word_start=word_start).value
    assert_near(found.scores[0], wanted, 1e-12)


REFUSED = {
    "no lists": ((torch.zeros(1, 2, 3), "abc"), TypeError, "candidates is a str; expected B lists"),
    "flat ids": ((torch.zeros(1, 2, 3), torch.tensor([[1, 2]])), ValueError, "candidates has shape"),
    "none": ((torch.zeros(1, 2, 3), [[]]), ValueError, r"candidates\[0\] is \[\]; expected a list of at least one"),
    "too few": ((torch.zeros(2, 2, 3), [[[1]]]), ValueError, "candidates has 1 sentences; expected 2"),
    "no samples": (([[[1]], [[1]]], [[[1]]]), ValueError, "candidates has 1 sentences; expected 2"),
}


@pytest.mark.parametrize(("arguments", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input(arguments, kind, message):
    with pytest.raises(kind, match=message):
        bleugrad.mbr(*arguments)


def test_options_of_logits_are_refused_with_samples():
    with pytest.raises(ValueError, match="eos_id is given with samples"):
        bleugrad.mbr([[[1]]], [[[1]]], eos_id=0)
