"""Expected ROUGE, GLEU and NIST against enumeration: exact where that is claimed, surrogates as they are defined."""

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import FAMILIES, assert_near, draw_cases, draw_references
from tests.oracles import scores as oracle
from tests.oracles.enumeration import PAD, enumerate_sequences
from tests.oracles.one_pass import frame_outputs, path_outputs
from tests.oracles.words import split

ORDER = 3


def information(references, rng):
    """Random weights, which tell n-grams apart better than counts of few tokens."""
    grams = {tuple(ref[i : i + n]) for ref in references for n in range(1, ORDER + 1) for i in range(len(ref) - n + 1)}
    return {gram: float(rng.integers(0, 9)) / 4 for gram in sorted(grams)}


def kinds(weights):
    """{name: (score, the metric of a hypothesis and a reference)}; ``several`` is the mean, which is linear."""
    found = {
        f"ROUGE-{n} {kind}": (
            bleugrad.ROUGE(n, kind, "mean"),
            lambda h, r, n=n, kind=kind: oracle.rouge(h, r, n, kind),
        )
        for n in (1, 2)
        for kind in ("recall", "precision", "f1")
    }
    found["GLEU"] = (bleugrad.GLEU(ORDER, "mean"), lambda h, r: oracle.gleu(h, r, ORDER))
    found["NIST"] = (bleugrad.NIST(weights, ORDER, "mean"), lambda h, r: oracle.nist(h, r, weights, ORDER))
    return found


def expectation(outputs, references, metric):
    """The mean over references of the metric's expectation; references of no tokens are absent."""
    given = [reference for reference in references if reference] or [[]]
    return sum(p * sum(metric(list(h), r) for r in given) / len(given) for h, p in outputs.items())


def row_outputs(rows, eos_id):
    sequences, probs = enumerate_sequences(rows, eos_id)
    return {tuple(t for t in row.tolist() if t != PAD): p for row, p in zip(sequences, probs, strict=True)}


@pytest.mark.parametrize("eos", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_tokens_are_exact(seed, rng, family, eos):
    for case in draw_cases(seed, family, 4, eos=eos):
        cut = [case.cut_references(b) for b in range(case.batch)]
        weights = information([ref for refs in cut for ref in refs], rng)
        outputs = [row_outputs(case.rows(b), case.eos_id) for b in range(case.batch)]
        for name, (score, metric) in kinds(weights).items():
            found = bleugrad.expected_score(case.logits, case.references, score, level="sentence", **case.keywords)
            wanted = [expectation(outputs[b], cut[b], metric) for b in range(case.batch)]
            assert_near(found.value, wanted, 1e-12, f"{name}: {case.references}")


@pytest.mark.parametrize("family", ["random", "self-overlapping", "several", "short"])
def test_graphs_are_exact(rng, family):
    for _ in range(5):
        vocabulary, steps = int(rng.integers(2, 4)), int(rng.integers(1, 6))
        logits = torch.from_numpy(rng.normal(size=(1, steps, vocabulary)))
        transitions = torch.from_numpy(rng.normal(size=(1, steps, steps)))
        references = draw_references(rng, list(range(vocabulary)), family)
        probs = torch.zeros(steps, steps, dtype=torch.float64)
        for w in range(steps - 1):
            probs[w, w + 1 :] = transitions[0, w, w + 1 :].softmax(-1)
        outputs = path_outputs(logits[0].softmax(-1).numpy(), probs.numpy())
        for name, (score, metric) in kinds(information(references, rng)).items():
            output = bleugrad.Graph(logits, transitions)
            found = bleugrad.expected_score(output, [references], score, level="sentence")
            assert_near(found.value, [expectation(outputs, references, metric)], 1e-12, f"{name}: {references}")


def ratio_of_expectations(name, outputs, reference, weights):
    """The surrogates where the joint distribution of matches and length is not known: one reference."""
    mean = lambda values: sum(p * values(list(h)) for h, p in outputs.items())  # noqa: E731
    if name == "GLEU":
        matches = mean(lambda h: oracle.gleu_parts(h, reference, ORDER)[0])
        below = mean(lambda h: oracle.gleu_parts(h, reference, ORDER)[1])
    elif name == "NIST":
        orders = range(ORDER)
        parts = [
            [mean(lambda h, n=n, i=i: oracle.nist_parts(h, reference, weights, ORDER)[n][i]) for i in (0, 1)]
            for n in orders
        ]
        penalty = mean(lambda h: oracle.nist_penalty(len(h), len(reference)))
        return penalty * sum(o / m for o, m in parts if m)
    else:
        n, kind = int(name[6]), name[8:]
        made = mean(lambda h: max(len(h) - n + 1, 0))
        wanted = max(len(reference) - n + 1, 0)
        matches = mean(lambda h: oracle.rouge(h, reference, n, "recall")) * wanted
        below = {"recall": wanted, "precision": made, "f1": (made + wanted) / 2}[kind]
    return matches / below if below else 0.0


@pytest.mark.parametrize("eos", [False, True])
def test_words_have_exact_recall_and_their_surrogates(seed, rng, eos):
    for case in draw_cases(seed, "random", 12, eos=eos, batch=1):
        vocabulary = case.logits.shape[2]
        starts = rng.random(vocabulary) < 0.5
        outputs = {}
        for tokens, p in row_outputs(case.rows(0), case.eos_id).items():
            words = tuple(split(tokens, starts))
            outputs[words] = outputs.get(words, 0.0) + p
        (tokens,) = case.cut_references(0)
        reference = split(tokens, starts)
        words = information([reference], rng)
        flat = {tuple(token for word in gram for token in word): weight for gram, weight in words.items()}
        for name, (score, metric) in kinds(flat).items():
            found = bleugrad.expected_score(
                case.logits, case.references, score, level="sentence", word_start=torch.tensor(starts), **case.keywords
            )
            wanted = ratio_of_expectations(name, outputs, reference, words)
            assert_near(found.value, [wanted], 1e-12, f"{name}: {reference}")
            if name.endswith("recall"):
                assert_near(found.value, [expectation(outputs, [reference], metric)], 1e-12, name)


def test_ctc_has_exact_recall_and_surrogates_of_the_expected_length(rng):
    for _ in range(8):
        logits = torch.from_numpy(rng.normal(size=(1, 4, 3)))
        reference = rng.integers(1, 3, size=3).tolist()
        outputs = frame_outputs(logits[0].softmax(-1).numpy(), 0)
        for name in ("ROUGE-1 recall", "ROUGE-2 recall", "ROUGE-1 precision", "ROUGE-2 f1"):
            score, metric = kinds({})[name]
            found = bleugrad.expected_score(bleugrad.CTC(logits, blank_id=0), [reference], score, level="sentence")
            assert_near(found.value, [ratio_of_expectations(name, outputs, reference, {})], 1e-12, name)
            if name.endswith("recall"):
                assert_near(found.value, [expectation(outputs, [reference], metric)], 1e-12, name)
        weights = information([reference], rng)
        output = bleugrad.CTC(logits, blank_id=0)
        weighted = bleugrad.NIST(weights, 1)
        found = bleugrad.expected_score(output, [reference], weighted, level="corpus").value
        ((matches, total),) = [
            np.sum([p * np.array(oracle.nist_parts(list(h), reference, weights, 1)[0]) for h, p in outputs.items()], 0)
        ]
        length = sum(p * len(h) for h, p in outputs.items())
        assert_near(found, matches / total * oracle.nist_penalty(length, 3), 1e-12)


def pooled(outputs, references, name, weights):
    """The score of a corpus of sentences with one output and one reference each."""
    if name == "GLEU":
        parts = [oracle.gleu_parts(h, r, ORDER) for h, r in zip(outputs, references, strict=True)]
        matches, below = (sum(part) for part in zip(*parts, strict=True))
        return matches / below if below else 0.0
    parts = [oracle.nist_parts(h, r, weights, ORDER) for h, r in zip(outputs, references, strict=True)]
    sums = np.array(parts, dtype=np.float64).sum(0)
    lengths = (sum(map(len, side)) for side in (outputs, references))
    return sum(o / m for o, m in sums if m) * oracle.nist_penalty(*lengths)


@pytest.mark.parametrize("name", ["GLEU", "NIST", "ROUGE-2 f1"])
def test_a_corpus_of_fixed_lengths_is_exact(rng, name):
    """The expectation over all pairs of outputs of two sentences."""
    logits = torch.from_numpy(rng.normal(size=(2, 3, 3)))
    mask, references = torch.tensor([[True, True, True], [True, True, False]]), [[0, 1, 0, 1], [2, 1]]
    weights = information(references, rng)
    score, metric = kinds(weights)[name]
    rows = logits.softmax(-1).numpy()
    first, second = (row_outputs(rows[b][mask[b].numpy()], None) for b in (0, 1))
    found = bleugrad.expected_score(logits, references, score, mask=mask).value
    wanted = 0.0
    for one, p in first.items():
        for other, q in second.items():
            pair = [list(one), list(other)]
            if name == "ROUGE-2 f1":
                wanted += p * q * sum(metric(h, r) for h, r in zip(pair, references, strict=True)) / 2
            else:
                wanted += p * q * pooled(pair, references, name, weights)
    assert_near(found, wanted, 1e-12)


def test_a_corpus_of_random_lengths_is_the_ratio_of_expectations(rng):
    logits, eos = torch.from_numpy(rng.normal(size=(2, 4, 3))), 2
    references = [[0, 1, 0], [1, 1]]
    rows = logits.softmax(-1).numpy()
    found = bleugrad.expected_score(logits, references, bleugrad.GLEU(ORDER), eos_id=eos).value
    parts = [
        sum(
            p * np.array(oracle.gleu_parts(list(h), references[b], ORDER)) for h, p in row_outputs(rows[b], eos).items()
        )
        for b in (0, 1)
    ]
    matches, below = sum(parts)
    assert_near(found, matches / below, 1e-12)


def test_the_best_reference_is_that_of_the_highest_mean(rng):
    logits = torch.from_numpy(rng.normal(size=(1, 4, 3)))
    references = [[0, 1, 0, 1, 1], [2], [1, 1, 2]]
    outputs = row_outputs(logits[0].softmax(-1).numpy(), None)
    weights = information(references, rng)
    for name, (score, metric) in kinds(weights).items():
        score.several = "best"
        found = bleugrad.expected_score(logits, [references], score, level="sentence").value
        if name == "NIST":
            continue  # below: each order has a best reference of its own
        by_f1 = metric if not name.startswith("ROUGE") else lambda h, r, n=name[6]: oracle.rouge(h, r, int(n), "f1")
        chosen = max(references, key=lambda r, by_f1=by_f1: expectation(outputs, [r], by_f1))
        assert_near(found, [expectation(outputs, [chosen], metric)], 1e-12, name)
    score = bleugrad.NIST(weights, ORDER)
    found = bleugrad.expected_score(logits, [references], score, level="sentence").value
    value, lengths = 0.0, []
    for n in range(ORDER):
        means = [
            sum(p * oracle.nist_parts(list(h), r, weights, ORDER)[n][0] for h, p in outputs.items()) for r in references
        ]
        best = max(range(3), key=lambda k, means=means: (means[k], len(references[k])))
        value += means[best] / (4 - n)
        lengths.append(len(references[best]))
    assert_near(found, [value * oracle.nist_penalty(4 * ORDER, sum(lengths))], 1e-12)
    best_of = sum(p * max(oracle.gleu(list(h), r, ORDER) for r in references) for h, p in outputs.items())
    assert bleugrad.expected_score(logits, [references], bleugrad.GLEU(ORDER), level="sentence").value <= best_of


SCORES = {
    "recall": bleugrad.ROUGE(1, "recall"),
    "precision": bleugrad.ROUGE(2, "precision"),
    "f1": bleugrad.ROUGE(2, "f1"),
    "GLEU": bleugrad.GLEU(3),
    "NIST": bleugrad.NIST({(0,): 1.0, (1,): 0.5, (0, 1): 2.0, (1, 0): 0.25, (2, 2): 1.0}, 2),
}


@pytest.mark.parametrize("level", ["sentence", "corpus"])
@pytest.mark.parametrize("kind", ["rows", "eos", "words", "ctc", "graph", "bound"])
@pytest.mark.parametrize("name", SCORES)
def test_gradients(rng, name, kind, level):
    logits = torch.from_numpy(rng.normal(size=(2, 4, 4))).requires_grad_()
    transitions = torch.from_numpy(rng.normal(size=(2, 4, 4))).requires_grad_()
    references = [[[0, 1, 0, 1], [1, 2]], [[2, 2]]]
    keywords = {"eos": {"eos_id": 3}, "words": {"word_start": torch.tensor([True, False, True, True])}}.get(kind, {})
    if kind == "bound":
        keywords = {"method": "bound", "eos_id": 3}

    def function(logits, transitions):
        output = logits
        if kind == "ctc":
            output = bleugrad.CTC(logits, blank_id=3)
        elif kind == "graph":
            output = bleugrad.Graph(logits, transitions, lengths=torch.tensor([4, 3]))
        return bleugrad.expected_score(output, references, SCORES[name], level=level, **keywords).value

    inputs = (logits, transitions if kind == "graph" else transitions.detach())
    assert torch.autograd.gradcheck(function, inputs)


def test_a_projection_equals_its_logits(rng):
    hidden, weight = torch.from_numpy(rng.normal(size=(2, 4, 5))), torch.from_numpy(rng.normal(size=(6, 5)))
    references = [[0, 1, 0], [2, 2, 5]]
    for score in SCORES.values():
        found = bleugrad.expected_score(bleugrad.Projection(hidden, weight), references, score).value
        wanted = bleugrad.expected_score(hidden @ weight.t(), references, score).value
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_nothing_to_match_is_zero():
    for score in SCORES.values():
        for level in ("sentence", "corpus"):
            empty = bleugrad.expected_score(torch.zeros(1, 2, 3), [[]], score, level=level).value
            assert empty.sum() == 0
            short = bleugrad.expected_score(torch.zeros(1, 0, 3), [[1, 2]], score, level=level).value
            assert short.sum() == 0


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="kind is 'F1'; expected 'recall' or 'precision' or 'f1'"):
        bleugrad.ROUGE(2, "F1")
    with pytest.raises(ValueError, match="several is 'max'"):
        bleugrad.GLEU(several="max")
    with pytest.raises(TypeError, match="weights is a list; expected a mapping"):
        bleugrad.NIST([1.0])
    with pytest.raises(TypeError, match=r"weights holds the n-gram 'ab'"):
        bleugrad.NIST({"ab": 1.0})
    with pytest.raises(ValueError, match=r"weights has nan for \(1,\)"):
        bleugrad.NIST({(1,): float("nan")})
