"""Words of several tokens: every expectation against enumeration, and the properties of tokens hold for words."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
import pytest
import torch

import bleugrad
from bleugrad.backends.torch import bound_matches
from tests.cases import (
    FAMILIES,
    Case,
    assert_near,
    assert_same,
    draw_case,
    draw_mask,
    draw_reference,
    one_hot_logits,
)
from tests.oracles import words as oracle
from tests.oracles.counting import combine, corpus_bleu, sentence_bleu
from tests.oracles.enumeration import pooled_brevity_penalty
from tests.scores.test_precision import assert_outward

METHODS = ("exact", "bound")
SMOOTHINGS = (0.0, 0.5, 1.0)
SLACK = 1e-10


@dataclass(frozen=True)
class WordCase(Case):
    """A case with the tokens that open a word (a tuple of bools)."""

    word_start: tuple = ()

    @property
    def keywords(self):
        return {**super().keywords, "word_start": torch.tensor(self.word_start, dtype=torch.bool)}

    @cached_property
    def words(self):
        """Full enumeration, one a sentence."""
        return [
            oracle.enumerate_words(self.rows(b), self.references[b], self.word_start, 4, self.eos_id)
            for b in range(self.batch)
        ]

    def bound(self):
        return [
            [oracle.bound(self.rows(b), self.references[b], self.word_start, n, self.eos_id) for n in range(1, 5)]
            for b in range(self.batch)
        ]


def in_words(case, word_start):
    return WordCase(case.logits, case.references, case.mask, case.eos_id, word_start)


def draw_word_case(rng, family, eos=False, batch=2, vocabulary=None):
    """A case of at most 256 sequences a sentence, references up to nine tokens, T != R as a rule."""
    vocabulary = vocabulary or int(rng.integers(2, 5))
    steps = int(rng.integers(1, {2: 8, 3: 6, 4: 5}[vocabulary]))
    eos_id = int(rng.integers(vocabulary)) if eos else None
    tokens = [v for v in range(vocabulary) if v != eos_id]
    kinds = {"several": 3, "holes": 2}.get(family, 1)
    references = [[draw_reference(rng, tokens, family, 9) for _ in range(kinds)] for _ in range(batch)]
    if family == "short":
        references = [[row[: rng.integers(0, 4)] for row in own] for own in references]
    if eos:
        references = [[[*row, eos_id, tokens[0]] if rng.random() < 0.5 else row for row in own] for own in references]
    logits = torch.from_numpy(rng.normal(size=(batch, steps, vocabulary)) * rng.choice([0.3, 1.0, 3.0]))
    mask = draw_mask(rng, batch, steps) if family == "holes" else None
    return Case(logits, references, mask, eos_id)


def every_word_start(vocabulary):
    return list(product([False, True], repeat=vocabulary))


def check(case, smoothing):
    """Every field at sentence level against the enumeration, and the interval holds the truth."""
    result = bleugrad.expected_bleu(
        case.logits, case.references, level="sentence", smoothing=smoothing, **case.keywords
    )
    for b, table in enumerate(case.words):
        matches, totals, penalty = (table.mean(x) for x in (table.matches, table.totals, table.penalties))
        assert_near(result.matches[b], matches, label="matches")
        assert_near(result.totals[b], totals, label="totals")
        assert_near(result.brevity_penalty[b], penalty, label="brevity penalty")
        assert_near(result.hypothesis_lengths[b], table.mean(table.lengths), label="lengths")
        assert_near(result.reference_lengths[b], table.mean(table.reference_lengths), label="reference lengths")
        assert_near(result.value[b], combine(matches, totals, penalty, smoothing=smoothing), label="value")
        truth = table.mean(table.bleu(smoothing=smoothing))
        assert result.upper[b] >= truth - SLACK
        if result.lower is not None:
            assert result.lower[b] <= truth + SLACK
    assert (result.lower is None) == (not case.single and smoothing == 0)


@pytest.mark.parametrize("eos", [False, True], ids=["fixed", "eos"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_expectation_equals_the_enumeration_for_every_choice_of_opening_tokens(rng, family, eos):
    """Words of one to nine tokens, repeats, self-overlaps, references that begin with a continuation token."""
    for vocabulary in (2, 3, 4):
        case = draw_word_case(rng, family, eos, vocabulary=vocabulary)
        for number, word_start in enumerate(every_word_start(vocabulary)):
            check(in_words(case, word_start), SMOOTHINGS[number % 3])


@pytest.mark.parametrize("eos_id", [None, 3])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_words_that_overlap_and_repeat(rng, eos_id, smoothing):
    """0 and 1 open a word, 2 continues it: `0 2` twice in a row, `0 2 1 0 2` overlapping itself, `0` beside `0 2`."""
    references = [
        [[0, 2, 0, 2, 0, 2]],
        [[0, 2, 1, 0, 2, 1, 0, 2]],
        [[0, 0, 2, 0, 0, 2, 2]],
        [[2, 0, 2, 2, 0]],
        [[2, 2, 2]],
        [[1, 2, 1, 2], [1, 2, 2, 1]],
        [[2], [2, 2, 0]],
    ]
    for scale in (0.5, 2.0):
        logits = torch.from_numpy(rng.normal(size=(len(references), 5, 4)) * scale)
        check(WordCase(logits, references, eos_id=eos_id, word_start=(True, True, False, False)), smoothing)


def test_the_word_after_decides(rng):
    """Reference `a b`, `b` continuing, three positions: a b x counts unless x continues the word."""
    probs = rng.dirichlet(np.ones(3), size=3)
    logits = torch.from_numpy(np.log(probs))[None]
    result = bleugrad.expected_bleu(logits, [[0, 1]], word_start=torch.tensor([True, False, True]), max_order=1)
    at_start = probs[0, 0] * probs[1, 1] * (1 - probs[2, 1])
    at_end = probs[1, 0] * probs[2, 1]
    assert_near(result.matches, [[at_start + at_end]], 1e-15)  # they exclude each other


@pytest.mark.parametrize("steps", [2, 30, 400])
@pytest.mark.parametrize("opens", [1e-17, 1e-9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kernels", ["1", "0"])
def test_totals_of_nearly_impossible_words_have_full_precision(monkeypatch, kernels, dtype, opens, steps):
    """Tokens open a word with probability `opens`: E[M_n] = opens^(n-1) * binomial(T - 1, n - 1) to first order.

    Without smoothing a precision is the ratio of two such numbers, and 1/3 for two tokens: that of token 0 at first.
    """
    monkeypatch.setenv("BLEUGRAD_KERNELS", kernels)
    logits = torch.zeros(1, steps, 4, dtype=dtype)
    logits[..., 3] = math.log(3 * opens / (1 - opens))
    options = {"word_start": torch.arange(4) == 3, "smoothing": 0.0, "max_order": 3, "weights": [0, 1, 0]}
    result = bleugrad.expected_bleu(logits, [[0, 3]], **options)
    totals = [opens**n * math.comb(steps - 1, n) for n in (1, 2)]
    assert result.totals[0, 1:].tolist() == pytest.approx(totals, rel=1e-5, abs=0)
    if steps == 2:
        assert result.precisions[1].item() == pytest.approx(1 / 3, rel=1e-5)


@pytest.mark.parametrize("eos_id", [None, 0])
def test_sentences_of_real_length(rng, eos_id):
    """Too long to enumerate: an automaton for each word n-gram."""
    word_start = (True, True, False, True, False, True)
    logits = torch.from_numpy(rng.normal(size=(3, 22, 6)) * 1.5)
    references = [[rng.integers(1, 6, size=18).tolist() for _ in range(k)] for k in (1, 1, 3)]
    references[1][0] = [1, 2, 1, 2, 3, 1, 2, 1, 2, 3, 1, 2, 4, 4, 1]
    case = WordCase(logits, references, eos_id=eos_id, word_start=word_start)
    result = bleugrad.expected_bleu(logits, references, **case.keywords)
    wanted = [
        [oracle.expected_matches(case.rows(b), references[b], word_start, n, eos_id) for n in range(1, 5)]
        for b in range(3)
    ]
    assert_near(result.matches, wanted)
    lower = bleugrad.expected_bleu(logits, references, method="bound", **case.keywords)
    assert_near(lower.matches, case.bound())


@pytest.mark.parametrize("eos", [False, True], ids=["fixed", "eos"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_bound_equals_its_formula(rng, family, eos):
    for vocabulary in (2, 3, 4):
        case = draw_word_case(rng, family, eos, vocabulary=vocabulary)
        for word_start in every_word_start(vocabulary):
            own = in_words(case, word_start)
            options = {"method": "bound", "level": "sentence", **own.keywords}
            assert_near(bleugrad.expected_bleu(case.logits, case.references, **options).matches, own.bound())


def test_the_bound_is_no_bound_of_words():
    """Even if they are distinct: that a word ends makes it likelier that one begins there.

    Reference `a`, `b` continuing, p = 1/2 at two positions: `a a` and `b a` match, the bound says 1/6 + 2/5.
    """
    logits, starts = torch.zeros(1, 2, 2, dtype=torch.float64), torch.tensor([True, False])
    for method, value in (("exact", 1 / 2), ("bound", 1 / 6 + 2 / 5)):
        result = bleugrad.expected_bleu(logits, [[0]], method=method, max_order=1, word_start=starts)
        assert_near(result.matches, [[value]], 1e-15)


def test_the_value_is_no_upper_bound_in_words():
    """The number of words is random: reference `a b`, one word; a b has BLEU-1 1, a a has 0 of 2."""
    logits = torch.tensor([[[0.99, 0.01], [0.5, 0.5]]], dtype=torch.float64).log()
    starts = torch.tensor([True, False])
    result = bleugrad.expected_bleu(logits, [[0, 1]], word_start=starts, max_order=1, smoothing=0.0, level="sentence")
    truth = 0.99 * 0.5
    assert_near(result.value, [truth / 1.5], 1e-15)
    assert_near(result.upper, [truth], 1e-13)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("level", ["sentence", "corpus"])
@pytest.mark.parametrize("eos_id", [None, 2])
def test_one_hot_rows_are_bleu_of_words(rng, method, level, eos_id):
    """Against bleugrad.bleu, and that against words in a Counter."""
    for word_start in every_word_start(4):
        hypotheses = rng.integers(0, 4, size=(4, 8)).tolist()
        references = [[rng.integers(0, 4, size=rng.integers(1, 9)).tolist() for _ in range(2)] for _ in range(4)]
        mask = torch.from_numpy(rng.random((4, 8)) < 0.8)
        starts = torch.tensor(word_start)
        options = {"level": level, "word_start": starts, "smoothing": 0.5}
        result = bleugrad.expected_bleu(
            one_hot_logits(hypotheses, 4), references, method=method, mask=mask, eos_id=eos_id, **options
        )
        kept = [
            [int(token) for token in np.array(row)[keep]] for row, keep in zip(hypotheses, mask.numpy(), strict=True)
        ]
        kept = [row[: row.index(eos_id)] if eos_id in row else row for row in kept]
        cut = [[row[: row.index(eos_id)] if eos_id in row else row for row in own] for own in references]
        counted = bleugrad.bleu(kept, cut, **options)
        assert_same(
            result, replace_float(counted), fields=("value", "matches", "totals", "precisions", "brevity_penalty")
        )
        words = [oracle.split(row, word_start) for row in kept]
        reference_words = [[oracle.split(row, word_start) for row in own] for own in cut]
        if level == "corpus":
            assert_near(counted.value, corpus_bleu(words, reference_words, smoothing=0.5), 1e-12)
        else:
            scores = [sentence_bleu(w, r, smoothing=0.5) for w, r in zip(words, reference_words, strict=True)]
            assert_near(counted.value, scores, 1e-12)


def replace_float(result):
    """The counts of bleugrad.bleu are integers."""
    return replace(result, matches=result.matches.double(), totals=result.totals.double())


@pytest.mark.parametrize("eos_id", [None, 3])
def test_the_pooled_brevity_penalty_is_exact_for_one_reference_each(rng, eos_id):
    """The number of words is random even where that of tokens is not: the convolution of the sentences' own."""
    for batch in (1, 2, 4):
        logits = torch.from_numpy(rng.normal(size=(batch, 4, 4)))
        references = [[rng.integers(0, 3, size=rng.integers(1, 7)).tolist()] for _ in range(batch)]
        case = WordCase(logits, references, eos_id=eos_id, word_start=(True, False, True, True))
        result = bleugrad.expected_bleu(logits, references, **case.keywords)
        assert_near(result.brevity_penalty, pooled_brevity_penalty(case.words))
        assert_near(result.totals, [table.mean(table.totals) for table in case.words])


@pytest.mark.parametrize("eos", [False, True], ids=["fixed", "eos"])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_the_truth_lies_in_the_interval_for_any_weights(rng, smoothing, eos):
    closed = 0
    for family in FAMILIES:
        case = draw_word_case(rng, family, eos, vocabulary=3)
        own = in_words(case, (True, False, bool(rng.random() < 0.5)))
        for weights in (None, [0.0, 0.0, 0.0, 1.0], [0.5, 0.5, 0.0, 0.0], [0.1, 0.0, 0.6, 0.3]):
            options = {"weights": weights, "smoothing": smoothing, **own.keywords}
            result = bleugrad.expected_bleu(case.logits, case.references, **options)
            truth = np.array([table.mean(table.bleu(weights, smoothing)) for table in own.words])
            assert (result.upper.numpy() >= truth - SLACK).all()
            if result.lower is not None:
                assert (result.lower.numpy() <= truth + SLACK).all()
                closed += int((result.upper - result.lower < 0.9).sum())
    assert closed > 10  # intervals that say nothing would pass


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("level", ["sentence", "corpus"])
@pytest.mark.parametrize("eos_id", [None, 3])
def test_if_every_token_opens_a_word_nothing_changes(rng, method, level, eos_id):
    """But the interval, which does not use that the number of words is known; it must be as wide or wider."""
    fields = ("value", "matches", "totals", "precisions", "brevity_penalty", "hypothesis_lengths", "reference_lengths")
    for family in FAMILIES:
        case = draw_case(rng, family, eos=eos_id is not None)
        everything = torch.ones(case.logits.shape[2], dtype=torch.bool)
        options = {"method": method, "level": level, **case.keywords}
        tokens = bleugrad.expected_bleu(case.logits, case.references, **options)
        in_words = bleugrad.expected_bleu(case.logits, case.references, word_start=everything, **options)
        assert_same(in_words, tokens, fields=fields)
        assert (in_words.upper >= tokens.upper - 1e-12).all()
        assert (in_words.lower <= tokens.lower + 1e-12).all()
    ids = rng.integers(0, 4, size=(2, 9)).tolist()
    starts = torch.ones(4, dtype=torch.bool)
    options = {"smoothing": 0, "level": "sentence"}
    in_words, in_tokens = (bleugrad.bleu(ids, ids[::-1], word_start=given, **options) for given in (starts, None))
    assert_same(in_words, in_tokens, atol=0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 3])
def test_it_does_not_matter_whether_eos_is_said_to_open_a_word(rng, method, eos_id):
    """EOS belongs to no word. Without eos_id the token is like any other, and it matters."""
    logits, references = torch.from_numpy(rng.normal(size=(2, 5, 4))), [[0, 1, 1, 3], [2, 1, 0]]
    results = [
        bleugrad.expected_bleu(
            logits, references, method=method, eos_id=eos_id, word_start=torch.tensor([True, False, True, opens])
        )
        for opens in (False, True)
    ]
    same = torch.allclose(results[0].matches, results[1].matches, atol=1e-12)
    assert same == (eos_id is not None)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 5])
def test_padding_and_batch_mates_change_nothing(rng, method, eos_id):
    starts = torch.tensor([True, False, True, False, True, True])
    logits = torch.from_numpy(rng.normal(size=(4, 9, 6)))
    mask = torch.arange(9) < torch.tensor([9, 5, 2, 0])[:, None]
    references = [
        [[0, 1, 2, 0, 1, 2, 0]],
        [[4, 1, 3, 1], [2, 2]],
        [[1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1]],
        [[2]],
    ]
    options = {"method": method, "eos_id": eos_id, "word_start": starts, "level": "sentence"}
    together = bleugrad.expected_bleu(logits, references, mask=mask, **options)
    spread = torch.from_numpy(rng.normal(size=(4, 14, 6)))  # the counted rows with holes between them
    holes = torch.zeros(4, 14, dtype=torch.bool)
    for b, length in enumerate((9, 5, 2, 0)):
        alone = bleugrad.expected_bleu(logits[b : b + 1, :length], [references[b]], **options)
        for field in ("value", "matches", "totals", "brevity_penalty", "hypothesis_lengths", "lower", "upper"):
            assert_near(getattr(together, field)[b], getattr(alone, field)[0].tolist(), 1e-12, field)
        places = np.sort(rng.choice(14, length, replace=False))
        spread[b, places], holes[b, places] = logits[b, :length], True
    assert_same(bleugrad.expected_bleu(spread, references, mask=holes, **options), together)
    padded = [[row + [-100] * (14 - len(row)) for row in own + [[]] * (2 - len(own))] for own in references]
    assert_same(bleugrad.expected_bleu(logits, torch.tensor(padded), mask=mask, **options), together)


def test_relabelling_the_vocabulary_changes_nothing(rng):
    starts = torch.tensor([True, False, True, False, True])
    logits = torch.from_numpy(rng.normal(size=(2, 7, 5)))
    references = rng.integers(0, 5, size=(2, 8))
    order = rng.permutation(5)
    names = np.argsort(order)  # the new id of each token
    for eos_id in (None, 4):
        relabelled = None if eos_id is None else int(names[eos_id])
        assert_same(
            bleugrad.expected_bleu(logits, torch.from_numpy(references), eos_id=eos_id, word_start=starts),
            bleugrad.expected_bleu(
                logits[..., order], torch.from_numpy(names[references]), eos_id=relabelled, word_start=starts[order]
            ),
        )


SEVERAL = [[[0, 1, 0, 1, 2], [1, 0, 1, 1, 0, 2]], [[2, 2, 1, 1], [0], [1, 2, 2, 2]]]
HOLES = torch.tensor([[True, True, False, True, True], [True, False, True, True, True]])
STARTS = torch.tensor([True, False, True, False])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("level", ["sentence", "corpus"])
@pytest.mark.parametrize("eos_id", [None, 3])
def test_gradcheck(rng, method, level, eos_id):
    logits = torch.from_numpy(rng.normal(size=(2, 5, 4))).requires_grad_()
    options = {"method": method, "level": level, "eos_id": eos_id, "mask": HOLES, "word_start": STARTS}

    def statistics(logits):
        result = bleugrad.expected_bleu(logits, SEVERAL, max_order=3, smoothing=0.7, **options)
        return result.value, result.matches, result.totals, result.brevity_penalty, result.upper, result.lower

    assert torch.autograd.gradcheck(statistics, (logits,), atol=1e-8, rtol=1e-5)


@pytest.mark.parametrize("eos_id", [None, 3])
def test_gradients_are_those_of_the_enumerated_expectation(rng, eos_id):
    """d E[O_n] / d logits from the sum over all sequences, by p[t, v] (E[O | x_t = v] - E[O])."""
    logits = torch.from_numpy(rng.normal(size=(1, 4, 4))).requires_grad_()
    references, word_start = [[[0, 1, 0, 1, 2]]], (True, False, True, False)
    case = WordCase(logits.detach(), references, eos_id=eos_id, word_start=word_start)
    rows = case.rows(0)
    mean = case.words[0].mean(case.words[0].matches).sum()
    wanted = np.zeros((4, 4))
    for t, v in product(range(4), range(4)):
        sure = rows.copy()
        sure[t] = np.eye(4)[v]
        table = oracle.enumerate_words(sure, references[0], word_start, 4, eos_id)
        wanted[t, v] = rows[t, v] * (table.mean(table.matches).sum() - mean)
    bleugrad.expected_bleu(logits, references, **case.keywords).matches.sum().backward()
    assert_near(logits.grad[0], wanted)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 3])
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_finite_where_probabilities_are_zero_or_one(rng, method, eos_id, smoothing):
    options = {"method": method, "eos_id": eos_id, "smoothing": smoothing, "word_start": STARTS}
    for tokens in ([[0, 1, 0, 1, 2], [2, 2, 1, 1, 3]], [[3, 3, 3, 3, 3], [1, 1, 1, 1, 1]]):
        for scale in (30.0, 1e4):
            for mask in (None, HOLES, torch.zeros_like(HOLES)):
                for dtype in (torch.float32, torch.float64):
                    logits = one_hot_logits(tokens, 4, dtype, scale).requires_grad_()
                    result = bleugrad.expected_bleu(logits, SEVERAL, mask=mask, **options)
                    (gradient,) = torch.autograd.grad(result.value, logits)
                    assert gradient.isfinite().all()
                    assert result.upper.isfinite().all()
                    assert result.lower is None or result.lower.isfinite().all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("peaked", [False, True], ids=["flat", "peaked"])
def test_float32_agrees_with_float64(seed, method, eos_id, peaked):
    """Relative errors. Half the vocabulary opens a word; peaked rows favour the reference."""
    references = torch.randint(1, 40, (4, 18))
    logits = torch.randn(4, 20, 200)
    if peaked:
        favoured = torch.nn.functional.pad(references, (0, 2))
        logits.scatter_add_(2, favoured[..., None], torch.full((4, 20, 1), 7.0))
    starts = torch.arange(200) % 2 == 0
    single, double = logits.clone().requires_grad_(), logits.double().requires_grad_()
    rough, fine = (
        bleugrad.expected_bleu(x, references, method=method, eos_id=eos_id, word_start=starts) for x in (single, double)
    )
    assert_outward(rough, fine, 2e-5)
    for field in ("value", "matches", "totals", "brevity_penalty", "hypothesis_lengths"):
        a, b = getattr(rough, field), getattr(fine, field)
        assert a.dtype == torch.float32
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=0, msg=lambda m, field=field: f"{field}: {m}")
    rough.value.backward()
    fine.value.backward()
    assert (single.grad.double() - double.grad).norm() < 1e-4 * double.grad.norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_computed_in_float32(seed, dtype):
    logits = torch.randn(2, 6, 30).to(dtype)
    references, starts = torch.randint(30, (2, 7)), torch.arange(30) % 3 > 0
    half, single = (x.requires_grad_() for x in (logits.clone(), logits.float()))
    rough, fine = (bleugrad.expected_bleu(x, references, word_start=starts) for x in (half, single))
    assert_same(rough, fine, atol=1e-6)
    rough.value.backward()
    fine.value.backward()
    torch.testing.assert_close(half.grad.float(), single.grad, rtol=1e-2, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 3])
def test_from_hidden_states_it_is_the_same(rng, method, eos_id):
    hidden, weight, bias = (torch.from_numpy(rng.normal(size=size)) for size in ((2, 5, 6), (4, 6), (4,)))
    options = {"method": method, "eos_id": eos_id, "mask": HOLES, "word_start": STARTS}
    gradients = []
    for linear in (False, True):
        leaves = [x.clone().requires_grad_() for x in (hidden, weight, bias)]
        h, w, b = leaves
        if linear:
            result = bleugrad.expected_bleu(bleugrad.Projection(h, w, b), SEVERAL, **options)
        else:
            result = bleugrad.expected_bleu(h @ w.T + b, SEVERAL, **options)
        result.value.backward()
        gradients.append([result.value.detach(), result.matches.detach(), *(leaf.grad for leaf in leaves)])
    for plain, fused in zip(*gradients, strict=True):
        torch.testing.assert_close(fused, plain, rtol=0, atol=1e-13)


@pytest.mark.parametrize("elements", [1, 4, 60, 300])
@pytest.mark.parametrize("eos_id", [None, 3])
def test_the_size_of_the_blocks_of_ngrams_changes_nothing(rng, monkeypatch, torch_operations, elements, eos_id):
    logits = torch.from_numpy(rng.normal(size=(2, 5, 4)) * 2)

    def value_and_gradient():
        leaf = logits.clone().requires_grad_()
        result = bleugrad.expected_bleu(leaf, SEVERAL, method="bound", eos_id=eos_id, word_start=STARTS)
        result.value.backward()
        return result.matches.detach(), result.upper.detach(), leaf.grad

    whole = value_and_gradient()
    monkeypatch.setattr(bound_matches, "BLOCK_ELEMENTS", elements)
    for part, wanted in zip(value_and_gradient(), whole, strict=True):
        torch.testing.assert_close(part, wanted, rtol=0, atol=1e-14)


BAD = [
    ([True, False, True, False], TypeError, "list"),
    (torch.tensor([1, 0, 1, 0]), TypeError, "int64"),
    (torch.ones(4), TypeError, "float32"),
    (torch.ones(5, dtype=torch.bool), ValueError, "5"),
    (torch.ones(3, dtype=torch.bool), ValueError, "3"),
    (torch.ones(1, 4, dtype=torch.bool), ValueError, "1, 4"),
    (torch.tensor(True), ValueError, r"\(\)"),
]


@pytest.mark.parametrize(("word_start", "exception", "found"), BAD)
def test_bad_input(word_start, exception, found):
    projection = bleugrad.Projection(torch.zeros(2, 5, 3), torch.zeros(4, 3))
    calls = [
        lambda: bleugrad.expected_bleu(torch.zeros(2, 5, 4), SEVERAL, word_start=word_start),
        lambda: bleugrad.expected_bleu(projection, SEVERAL, word_start=word_start),
    ]
    for call in calls:
        with pytest.raises(exception, match=r"\bword_start\b") as raised:
            call()
        raised.match(found)


@pytest.mark.parametrize(
    ("word_start", "exception"),
    [
        ([True] * 4, TypeError),
        (torch.ones(4), TypeError),
        (torch.ones(2, 2, dtype=torch.bool), ValueError),
        (torch.ones(2, dtype=torch.bool), ValueError),  # an id of 3 is not among its tokens
    ],
)
def test_bad_input_of_bleu(word_start, exception):
    with pytest.raises(exception, match=r"word_start|vocabulary"):
        bleugrad.bleu([[0, 3]], [[0, 1]], word_start=word_start)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 3])
def test_nothing_to_count(method, eos_id):
    """No sentences, no positions, empty references."""
    options = {"method": method, "eos_id": eos_id, "word_start": STARTS}
    for batch, steps, references in ((0, 5, []), (2, 0, [[0, 1], [2]]), (2, 3, [[], []]), (1, 3, [[3]])):
        logits = torch.zeros(batch, steps, 4, requires_grad=True)
        result = bleugrad.expected_bleu(logits, references, **options)
        result.value.backward()
        assert result.value.isfinite()
        assert logits.grad.isfinite().all()
    assert bleugrad.bleu([[], [1]], [[0, 1], []], word_start=STARTS).hypothesis_lengths.tolist() == [0, 1]
