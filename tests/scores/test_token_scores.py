"""Scores of token ids against their definitions, against rouge-score, nltk and sacreBLEU, and rewards of tokens."""

import gzip
from itertools import product

import numpy as np
import pytest
import torch

import bleugrad
from bleugrad.scores import token_matches
from bleugrad.scores.ngram_weights import NGramWeights
from tests.cases import assert_near
from tests.oracles import scores as oracle
from tests.oracles.counting import sentence_bleu
from tests.oracles.words import split

WEIGHTS = {(0,): 1.0, (1,): 0.5, (2,): 0.125, (0, 1): 2.0, (1, 1): 0.75, (1, 0): 0.25, (0, 1, 1): 3.0}
METRICS = {
    "recall": (bleugrad.ROUGE(2, "recall", "mean"), lambda h, r: oracle.rouge(h, r, 2, "recall")),
    "precision": (bleugrad.ROUGE(1, "precision", "mean"), lambda h, r: oracle.rouge(h, r, 1, "precision")),
    "f1": (bleugrad.ROUGE(2, "f1", "mean"), lambda h, r: oracle.rouge(h, r, 2, "f1")),
    "ROUGE-L": (bleugrad.ROUGEL("f1", "mean"), lambda h, r: oracle.rouge_l(h, r, "f1")),
    "ROUGE-L recall": (bleugrad.ROUGEL("recall", "mean"), lambda h, r: oracle.rouge_l(h, r, "recall")),
    "GLEU": (bleugrad.GLEU(several="mean"), oracle.gleu),
    "NIST": (bleugrad.NIST(WEIGHTS, 3, "mean"), lambda h, r: oracle.nist(h, r, WEIGHTS, 3)),
}


def draw(rng, longest=9, vocabulary=3, sentences=6):
    """Hypotheses, and one to three references of each."""
    sequence = lambda low: rng.integers(0, vocabulary, size=rng.integers(low, longest + 1)).tolist()  # noqa: E731
    references = [[sequence(1) for _ in range(rng.integers(1, 4))] for _ in range(sentences)]
    return [sequence(0) for _ in range(sentences)], references


@pytest.fixture(params=["matrices", "sorting"])
def way(request, monkeypatch):
    """Both ways to count: matrices of short sentences, and sorting of long ones."""
    if request.param == "sorting":
        monkeypatch.setattr(token_matches, "MATRIX_ELEMENTS", 0)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", METRICS)
def test_a_score_of_ids_is_its_definition(rng, name):
    score, metric = METRICS[name]
    for _ in range(8):
        hypotheses, references = draw(rng)
        found = bleugrad.token_score(hypotheses, references, score, level="sentence")
        wanted = [np.mean([metric(h, r) for r in refs]) for h, refs in zip(hypotheses, references, strict=True)]
        assert_near(found, wanted, 1e-12, f"{hypotheses} {references}")


@pytest.mark.parametrize("name", METRICS)
def test_words_are_counted(rng, name):
    score, metric = METRICS[name]
    starts = [True, False, True]
    words = {}
    for gram, weight in WEIGHTS.items():
        words[tuple(split(gram, starts))] = weight
    if name == "NIST":
        metric = lambda h, r: oracle.nist(h, r, words, 3)  # noqa: E731
    for _ in range(8):
        hypotheses, references = draw(rng)
        found = bleugrad.token_score(hypotheses, references, score, level="sentence", word_start=torch.tensor(starts))
        wanted = [
            np.mean([metric(split(h, starts), split(r, starts)) for r in refs])
            for h, refs in zip(hypotheses, references, strict=True)
        ]
        assert_near(found, wanted, 1e-12, f"{hypotheses} {references}")


@pytest.mark.usefixtures("way")
def test_a_weight_is_found_where_the_shorter_ngram_has_matched_before():
    """The second 0 1 2 is beyond its count, and the 4-gram from there on is a match."""
    score = bleugrad.NIST({(0, 1, 2, 0): 1.0}, 4)
    assert bleugrad.token_score([[0, 1, 2, 1, 0, 1, 2, 0]], [[0, 1, 2, 0]], score).item() == pytest.approx(1 / 5)


def test_long_subsequences_carry(rng):
    hypotheses, references = draw(rng, longest=200, vocabulary=4, sentences=12)
    found = bleugrad.token_score(hypotheses, references, bleugrad.ROUGEL("f1", "mean"), level="sentence")
    wanted = [
        np.mean([oracle.rouge_l(h, r, "f1") for r in refs]) for h, refs in zip(hypotheses, references, strict=True)
    ]
    assert_near(found, wanted, 1e-12)


def test_bleu_of_ids_is_the_same_by_both_functions(rng):
    hypotheses, references = draw(rng, sentences=20)
    for level in ("sentence", "corpus"):
        for word_start in (None, torch.tensor([True, False, True])):
            found = bleugrad.token_score(hypotheses, references, bleugrad.BLEU(), level=level, word_start=word_start)
            wanted = bleugrad.bleu(hypotheses, references, level=level, word_start=word_start).value
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_certain_rows_have_the_score_of_their_tokens(rng):
    """Expected scores of one-hot rows against scores of ids: two ways to the same numbers, the best reference too."""
    tokens = torch.from_numpy(rng.integers(0, 3, size=(5, 6)))
    _, references = draw(rng, sentences=5)
    rows = torch.nn.functional.one_hot(tokens, 3).double() * 2e3
    scores = (bleugrad.ROUGE(2, "recall"), bleugrad.ROUGE(1, "f1"), bleugrad.GLEU(), bleugrad.NIST(WEIGHTS, 3))
    for score, level in product(scores, ("sentence", "corpus")):
        expected = bleugrad.expected_score(rows, references, score, level=level).value
        found = bleugrad.token_score(tokens, references, score, level=level)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


# Packages

PAIRS = 2000


@pytest.fixture(scope="module")
def pairs(data_dir):
    """Tokens of 2,000 image descriptions and of four others of the same image, and ids of them."""
    path = data_dir / "captions" / "train.refs.en.gz"
    if not path.is_file():
        pytest.skip(f"no captions at {path}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [[text.split() for text in next(file).rstrip("\n").split("\t")] for _ in range(PAIRS)]
    words = {word: number for number, word in enumerate(sorted({w for line in lines for text in line for w in text}))}
    ids = [[[words[word] for word in text] for text in line] for line in lines]
    texts = [line[0] for line in lines], [line[1:] for line in lines]
    return texts, ([line[0] for line in ids], [line[1:] for line in ids])


class Spaces:
    def tokenize(self, text):
        return text.split()


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(("name", "order"), [("rouge1", 1), ("rouge2", 2), ("rougeL", None)])
def test_rouge_is_that_of_rouge_score(pairs, name, order, several):
    rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")
    (made, wanted), (ids, references) = pairs
    if not several:
        wanted, references = [refs[:1] for refs in wanted], [refs[:1] for refs in references]
    scorer = rouge_scorer.RougeScorer([name], tokenizer=Spaces())
    each = [[scorer.score(" ".join(r), " ".join(h))[name] for r in refs] for h, refs in zip(made, wanted, strict=True)]
    theirs = [
        scorer.score_multi([" ".join(r) for r in refs], " ".join(h))[name] for h, refs in zip(made, wanted, strict=True)
    ]
    tied = [sum(one.fmeasure > max(o.fmeasure for o in row) - 1e-9 for one in row) > 1 for row in each]
    for kind, field in (("recall", "recall"), ("precision", "precision"), ("f1", "fmeasure")):
        score = bleugrad.ROUGEL(kind) if order is None else bleugrad.ROUGE(order, kind)
        found = bleugrad.token_score(ids, references, score, level="sentence").numpy()
        expected = np.array([getattr(one, field) for one in theirs])
        counted = np.array([kind == "f1" or not tie for tie in tied])  # of equals rounding decides
        np.testing.assert_allclose(found[counted], expected[counted], rtol=0, atol=1e-9)
        assert counted.mean() > 0.5
        mean = bleugrad.token_score(ids, references, score).item()
        if kind == "f1":
            assert mean == pytest.approx(expected.mean(), abs=1e-9)


@pytest.mark.parametrize("several", [False, True])
def test_gleu_is_that_of_nltk(pairs, several):
    nltk = pytest.importorskip("nltk.translate.gleu_score")
    (made, wanted), (ids, references) = pairs
    if not several:
        wanted, references = [refs[:1] for refs in wanted], [refs[:1] for refs in references]
    found = bleugrad.token_score(ids, references, bleugrad.GLEU(), level="sentence")
    assert_near(found, [nltk.sentence_gleu(refs, h) for h, refs in zip(made, wanted, strict=True)], 1e-9)
    whole = bleugrad.token_score(ids, references, bleugrad.GLEU()).item()
    assert whole == pytest.approx(nltk.corpus_gleu(wanted, made), abs=1e-9)


@pytest.mark.parametrize("several", [False, True])
def test_nist_is_that_of_nltk(pairs, several):
    nltk = pytest.importorskip("nltk.translate.nist_score")
    (made, wanted), (ids, references) = pairs
    if not several:
        wanted, references = [refs[:1] for refs in wanted], [refs[:1] for refs in references]
    whole = bleugrad.token_score(ids, references, bleugrad.NIST.from_references(references)).item()
    assert whole == pytest.approx(nltk.corpus_nist(wanted, made), abs=1e-9)
    for b in range(0, PAIRS, 40):
        score = bleugrad.NIST.from_references(references[b : b + 1])
        found = bleugrad.token_score(ids[b : b + 1], references[b : b + 1], score, level="sentence").item()
        assert found == pytest.approx(nltk.sentence_nist(wanted[b], made[b]), abs=1e-9)


def test_bleu_is_that_of_sacrebleu(pairs):
    sacrebleu = pytest.importorskip("sacrebleu")
    (made, wanted), (ids, references) = pairs
    streams = [[" ".join(refs[k]) for refs in wanted] for k in range(4)]
    theirs = sacrebleu.corpus_bleu([" ".join(h) for h in made], streams, tokenize="none", force=True).score
    found = bleugrad.token_score(ids, references, bleugrad.BLEU(smoothing=0)).item()
    assert 100 * found == pytest.approx(theirs, abs=1e-9)


def test_information_of_words_is_that_of_their_tokens(rng):
    starts = torch.tensor([True, False, True])
    references = [[0, 1, 2, 0, 1], [2, 1, 1, 0], [0, 2, 0, 1, 1]]
    words = [split(reference, starts) for reference in references]
    found = bleugrad.NIST.from_references(references, max_order=3, word_start=starts)
    wanted = {tuple(t for word in gram for t in word): w for gram, w in oracle.information(words, 3).items()}
    hypotheses = [[0, 1, 2, 1], [2, 0, 1, 1], [0]]
    for level in ("sentence", "corpus"):
        score = bleugrad.token_score(hypotheses, references, found, word_start=starts, level=level)
        other = bleugrad.token_score(hypotheses, references, bleugrad.NIST(wanted, 3), word_start=starts, level=level)
        torch.testing.assert_close(score, other, rtol=0, atol=1e-12)
        assert score.sum() > 0


@pytest.mark.parametrize("starts", [None, torch.tensor([True, False, True])])
def test_information_is_its_definition(rng, starts):
    """Of n-grams that occur once and often, in tokens and in words, with references of no tokens among them."""
    for _ in range(15):
        hypotheses, references = draw(rng, sentences=6)
        references[0].append([])
        flat = [reference for several in references for reference in several]
        units = [split(one, starts) if starts is not None else [(token,) for token in one] for one in flat]
        weights = {tuple(t for unit in gram for t in unit): w for gram, w in oracle.information(units, 4).items()}
        options = {"word_start": starts, "level": "sentence"}
        found = bleugrad.NIST.from_references(references, max_order=4, word_start=starts)
        wanted = bleugrad.token_score(hypotheses, references, bleugrad.NIST(weights, 4), **options)
        assert_near(bleugrad.token_score(hypotheses, references, found, **options), wanted, 1e-12)


def test_a_weight_is_found_where_the_guess_is_wrong(rng, monkeypatch):
    hypotheses, references = draw(rng, sentences=20)
    score = lambda: bleugrad.token_score(hypotheses, references, bleugrad.NIST.from_references(references))  # noqa: E731
    wanted = score()
    monkeypatch.setattr(NGramWeights, "_slot", lambda self, key: torch.zeros_like(key))  # one guess for all keys
    assert score().item() == pytest.approx(wanted.item(), abs=1e-12)
    assert wanted > 0


# Rewards

REWARDED = {name: score for name, (score, _) in METRICS.items()} | {"BLEU": bleugrad.BLEU(), "best": bleugrad.GLEU()}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("name", REWARDED)
def test_rewards_are_the_increments_of_prefixes(rng, name, words):
    starts = torch.tensor([True, False, True, True]) if words else None
    tokens = torch.from_numpy(rng.integers(0, 4, size=(5, 7)))
    tokens[1, 2], tokens[3] = -100, -100
    _, references = draw(rng, sentences=5)
    found = bleugrad.token_rewards(tokens, references, REWARDED[name], eos_id=3, word_start=starts)
    for b, row in enumerate(tokens.tolist()):
        before, prefix, ended = 0.0, [], False
        for t, token in enumerate(row):
            ended = ended or token == 3
            value = before
            if not ended and token != -100:
                prefix.append(token)
                options = {"level": "sentence", "word_start": starts}
                value = bleugrad.token_score([prefix], references[b : b + 1], REWARDED[name], **options).item()
            assert found[b, t].item() == pytest.approx(value - before, abs=1e-12), (row, t)
            before = value
        assert found[b].sum().item() == pytest.approx(before, abs=1e-12)


@pytest.mark.parametrize("name", ["BLEU", "GLEU", "ROUGE-L"])
def test_policy_gradients_with_rewards_to_go_are_unbiased(rng, name):
    """All outputs of a policy with a state: the mean of the estimate is the gradient of the expected score.

    Token 2 ends the sequence. The logits of position t depend on the token before it.
    """
    steps, vocabulary, references = 3, 3, [[0, 1]]
    logits = torch.from_numpy(rng.normal(size=(steps, vocabulary + 1, vocabulary))).requires_grad_()
    log_probs = logits.log_softmax(-1)
    score = REWARDED[name]
    expected, estimate = 0.0, 0.0
    for tokens in product(range(vocabulary), repeat=steps):
        ended = tokens.index(2) if 2 in tokens else steps
        if any(token != 2 for token in tokens[ended:]):
            continue  # one continuation stands for all after the end
        used = tokens[: min(ended + 1, steps)]
        steps_taken = [log_probs[t, tokens[t - 1] if t else 3, tokens[t]] for t in range(len(used))]
        log_prob = torch.stack(steps_taken).sum()
        rewards = bleugrad.token_rewards([list(tokens)], references, score, eos_id=2)[0, : len(used)]
        to_go = rewards.flip(0).cumsum(0).flip(0)
        expected = expected + log_prob.exp() * rewards.sum()
        estimate = estimate + log_prob.exp().detach() * (to_go * torch.stack(steps_taken)).sum()
    (true,) = torch.autograd.grad(expected, logits, retain_graph=True)
    (found,) = torch.autograd.grad(estimate, logits)
    torch.testing.assert_close(found, true, rtol=0, atol=1e-12)
    assert true.abs().max() > 1e-3


def test_the_prefix_has_its_own_brevity_penalty():
    """Reference a c, prefix a: the prefix alone has BLEU-1 with brevity penalty exp(1 - 2 / 1)."""
    score = bleugrad.BLEU(1, smoothing=0)
    found = bleugrad.token_rewards([[0, 1]], [[0, 2]], score)
    first = sentence_bleu([0], [[0, 2]], 1)
    assert_near(found, [[first, sentence_bleu([0, 1], [[0, 2]], 1) - first]], 1e-12)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="ROUGEL, whose expectation is not known; expected token ids"):
        bleugrad.expected_score(torch.zeros(1, 2, 3), [[1]], bleugrad.ROUGEL())
    for call in (bleugrad.token_score, bleugrad.token_rewards):
        with pytest.raises(TypeError, match="score is 'rouge2'; expected a score"):
            call([[1]], [[1]], "rouge2")
        with pytest.raises(TypeError, match="eos_id is 'end'"):
            call([[1]], [[1]], bleugrad.GLEU(), eos_id="end")
    with pytest.raises(TypeError, match="score is <class"):
        bleugrad.expected_score(torch.zeros(1, 2, 3), [[1]], bleugrad.GLEU)
    with pytest.raises(ValueError, match="n is 0; expected 1 to 100"):
        bleugrad.ROUGE(0)
    with pytest.raises(TypeError, match="references is a int"):
        bleugrad.NIST.from_references(3)
    with pytest.raises(ValueError, match="references has shape"):
        bleugrad.NIST.from_references(torch.tensor(3))
    with pytest.raises(ValueError, match="references holds the id 4; expected ids below the vocabulary size 2"):
        bleugrad.NIST.from_references([[4]], word_start=torch.tensor([True, False]))
    with pytest.raises(ValueError, match="level is 'batch'"):
        bleugrad.token_score([[1]], [[1]], bleugrad.GLEU(), level="batch")
    with pytest.raises(TypeError, match="hypotheses has dtype"):
        bleugrad.token_rewards(torch.zeros(1, 2), [[1]], bleugrad.GLEU())
    with pytest.raises(TypeError, match=r"hypotheses\[0\] is 1 of type int"):
        bleugrad.token_rewards([1], [[1]], bleugrad.GLEU())
