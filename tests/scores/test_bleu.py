"""bleugrad.bleu is the BLEU of the counting definition and of sacreBLEU."""

import dataclasses
import gzip
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

import bleugrad
from tests.cases import assert_near
from tests.oracles import counting

WEIGHTS = {1: [1.0], 2: [0.3, 0.7], 3: [0.0, 1.0, 0.0], 4: [0.0, 0.0, 0.0, 1.0]}


def check_against_counting(hypotheses, references, max_order=4, weights=None, smoothing=0.0):
    """Every field, sentence and corpus level; `references[b]` lists the references of sentence b."""
    options = {"max_order": max_order, "weights": weights, "smoothing": smoothing}
    rows = [counting.statistics(h, r, max_order) for h, r in zip(hypotheses, references, strict=True)]
    matches, totals, lengths, closest = (list(column) for column in zip(*rows, strict=True))
    for level in ("sentence", "corpus"):
        result = bleugrad.bleu(hypotheses, references, level=level, **options)
        for field, expected in (
            ("matches", matches),
            ("totals", totals),
            ("hypothesis_lengths", lengths),
            ("reference_lengths", closest),
        ):
            assert getattr(result, field).dtype == torch.int64
            assert getattr(result, field).tolist() == expected, field
        assert result.value.dtype == torch.float64
        if level == "sentence":
            values = [counting.sentence_bleu(h, r, **options) for h, r in zip(hypotheses, references, strict=True)]
            penalties = [counting.brevity_penalty(c, r) for c, r in zip(lengths, closest, strict=True)]
            ratios = [counting.precisions(o, m, smoothing) for o, m in zip(matches, totals, strict=True)]
        else:
            values = counting.corpus_bleu(hypotheses, references, **options)
            penalties = counting.brevity_penalty(sum(lengths), sum(closest))
            ratios = counting.precisions(np.sum(matches, axis=0), np.sum(totals, axis=0), smoothing)
        assert_near(result.value, values, 1e-12, "value")
        assert_near(result.brevity_penalty, penalties, 1e-12, "brevity_penalty")
        assert_near(result.precisions, ratios, 1e-12, "precisions")


def draw_corpus(rng, sentences, vocabulary, longest, most_references=1, shortest=0):
    """Hypotheses are noisy copies of their first reference, so that high orders match too."""
    hypotheses, references = [], []
    for _ in range(sentences):
        own = [
            rng.integers(0, vocabulary, size=rng.integers(shortest, longest + 1)).tolist()
            for _ in range(rng.integers(1, most_references + 1))
        ]
        copy = [int(rng.integers(vocabulary)) if rng.random() < 0.2 else token for token in own[0]]
        start = int(rng.integers(0, 3))
        hypotheses.append(copy[start:] + rng.integers(0, vocabulary, size=rng.integers(0, 3)).tolist())
        references.append(own)
    return hypotheses, references


@pytest.mark.parametrize("max_order", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("smoothing", [0.0, 0.5, 1.0])
def test_equals_the_counting_definition(rng, max_order, smoothing):
    for vocabulary in (1, 2, 3, 6, 50):
        hypotheses, references = draw_corpus(rng, 40, vocabulary, 12, most_references=3)
        check_against_counting(hypotheses, references, max_order, None, smoothing)
        check_against_counting(hypotheses, references, max_order, WEIGHTS.get(max_order), smoothing)


SENTENCES = st.lists(st.integers(0, 2), max_size=9)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(st.tuples(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_equals_the_counting_definition_on_whatever_hypothesis_finds(pairs):
    hypotheses, references = (list(column) for column in zip(*pairs, strict=True))
    check_against_counting(hypotheses, references)


def test_the_example_of_the_papers_appendix():
    words = "Mike took an apple and the apple was delicious".split()
    ids = {word: k for k, word in enumerate(dict.fromkeys(words))}
    candidate = [ids[word] for word in words]
    apple = ids["apple"]
    assert [i for i, token in enumerate(candidate) if token == apple] == [3, 6]
    for copies, matched in ((0, 0), (1, 1), (2, 2), (3, 2)):  # Count_C(apple) = 2 clips from above
        result = bleugrad.bleu([candidate], [[apple] * copies], max_order=1)
        assert result.matches.tolist() == [[matched]]
        assert result.totals.tolist() == [[9]]
    itself = bleugrad.bleu([candidate], [candidate], smoothing=0, level="sentence")
    assert itself.matches.tolist() == itself.totals.tolist() == [[9, 8, 7, 6]]
    assert itself.value.tolist() == [1.0]


def test_degenerate_sentences():
    """Empty against empty, empty against something, something against empty; shorter than the order."""
    hypotheses, references = [[], [], [1, 2], [1, 2]], [[[]], [[1]], [[]], [[1, 2]]]
    check_against_counting(hypotheses, references)
    check_against_counting(hypotheses, references, smoothing=1.0)
    result = bleugrad.bleu(hypotheses, references, smoothing=1.0, level="sentence")
    assert result.brevity_penalty.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert_near(result.value, [1.0, 0.0, (1 / 3 * 1 / 2) ** 0.25, 1.0], 1e-12)
    assert bleugrad.bleu(hypotheses, references, smoothing=0, level="sentence").value.tolist() == [0.0] * 4


def test_orders_of_weight_zero_are_left_out_even_where_nothing_matches():
    result = bleugrad.bleu(
        [[0, 1], [0, 1]], [[1, 0], [0, 1]], weights=[1.0, 0.0, 0.0, 0.0], smoothing=0, level="sentence"
    )
    assert result.value.tolist() == [1.0, 1.0]
    assert result.matches.tolist() == [[2, 0, 0, 0], [2, 1, 0, 0]]


def test_brevity_penalty_is_exponential_in_the_length_ratio():
    result = bleugrad.bleu([[0] * 2, [0] * 4, [0] * 5], [[0] * 4] * 3, max_order=1, smoothing=0, level="sentence")
    assert_near(result.brevity_penalty, [math.exp(-1), 1, 1], 1e-15)


@pytest.mark.parametrize("ignore_index", [-100, -1, 0])
def test_ignored_positions_close_up_wherever_they_stand(rng, ignore_index):
    vocabulary = 4
    for _ in range(20):
        hypotheses = rng.integers(1, vocabulary, size=(5, 9))
        references = rng.integers(1, vocabulary, size=(5, 2, 8))
        hypotheses[rng.random(hypotheses.shape) < 0.3] = ignore_index
        references[rng.random(references.shape) < 0.3] = ignore_index
        closed = [[token for token in row if token != ignore_index] for row in hypotheses.tolist()]
        closed_references = [[[t for t in r if t != ignore_index] for r in refs] for refs in references.tolist()]
        expected = [counting.statistics(h, r, 3) for h, r in zip(closed, closed_references, strict=True)]
        for given_hypotheses in (torch.from_numpy(hypotheses), hypotheses.tolist()):
            result = bleugrad.bleu(
                given_hypotheses, torch.from_numpy(references), max_order=3, ignore_index=ignore_index
            )
            assert result.matches.tolist() == [row[0] for row in expected]
            assert result.totals.tolist() == [row[1] for row in expected]
            assert result.hypothesis_lengths.tolist() == [row[2] for row in expected]
            assert result.reference_lengths.tolist() == [row[3] for row in expected]


def test_hypothesis_lengths_cut_the_positions_from_there_on(rng):
    hypotheses = torch.from_numpy(rng.integers(0, 3, size=(6, 8)))
    hypotheses[:, 2] = -100  # a hole is a position too
    references = torch.from_numpy(rng.integers(0, 3, size=(6, 8)))
    lengths = torch.tensor([0, 1, 3, 5, 7, 8])
    cut = [[t for t in row[:n] if t != -100] for row, n in zip(hypotheses.tolist(), lengths.tolist(), strict=True)]
    result = bleugrad.bleu(
        hypotheses, references, hypothesis_lengths=lengths, max_order=2, smoothing=0, level="sentence"
    )
    expected = bleugrad.bleu(cut, references, max_order=2, smoothing=0, level="sentence")
    for field in ("value", "matches", "totals", "hypothesis_lengths", "reference_lengths", "brevity_penalty"):
        assert torch.equal(getattr(result, field), getattr(expected, field)), field


def test_the_result_cannot_be_changed():
    result = bleugrad.bleu([[0]], [[0]])
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.value = 0


def joined(tokens):
    return " ".join(map(str, tokens))


def check_against_sacrebleu(hypotheses, references, k=None):
    """Corpus level; sentences may have different numbers of references. k: sacreBLEU's add-k smoothing."""
    options = {"tokenize": "none", "force": True, "effective_order": False}
    smoothing = {"smooth_method": "none"} if k is None else {"smooth_method": "add-k", "smooth_value": k}
    most = max(len(own) for own in references)
    streams = [[joined(own[j]) if j < len(own) else None for own in references] for j in range(most)]
    score = BLEU(**smoothing, **options).corpus_score([joined(h) for h in hypotheses], streams)
    result = bleugrad.bleu(hypotheses, references, smoothing=0, level="corpus")
    matches, totals = result.matches.sum(0).tolist(), result.totals.sum(0).tolist()
    assert result.hypothesis_lengths.sum() == score.sys_len
    assert result.reference_lengths.sum() == score.ref_len
    assert result.brevity_penalty.item() == pytest.approx(score.bp, abs=1e-12)
    if k is None:
        assert (matches, totals) == (score.counts, score.totals)
        assert 100 * result.value.item() == pytest.approx(score.score, abs=1e-10)
        assert [100 * p for p in result.precisions.tolist()] == pytest.approx(score.precisions, abs=1e-10)
    else:  # sacreBLEU leaves order 1 alone, where the paper smooths every order
        by_hand = [matches[0] / totals[0]]
        by_hand += [(o + k) / (m + k) for o, m in zip(matches[1:], totals[1:], strict=True)]
        value = 100 * result.brevity_penalty.item() * math.prod(by_hand) ** 0.25
        assert value == pytest.approx(score.score, abs=1e-10)


@pytest.mark.parametrize("most_references", [1, 3])
@pytest.mark.parametrize("vocabulary", [3, 30])
def test_equals_sacrebleu_on_random_corpora(rng, vocabulary, most_references):
    """2,000 sentence pairs in corpora of 1 to 50 sentences."""
    for size in [1] * 50 + [2] * 50 + [7] * 50 + [50] * 10:
        hypotheses, references = draw_corpus(rng, size, vocabulary, 15, most_references, shortest=1)
        check_against_sacrebleu(hypotheses, references)


@pytest.mark.parametrize("k", [1, 0.5])
def test_statistics_give_sacrebleus_add_k(rng, k):
    for _ in range(30):
        check_against_sacrebleu(*draw_corpus(rng, 8, 5, 12, 2, shortest=4), k=k)


def read_lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def to_ids(sentences, ids):
    return [[ids.setdefault(word, len(ids)) for word in sentence.split()] for sentence in sentences]


def damaged(rng, tokens, vocabulary):
    """A translation-like hypothesis: words dropped, replaced and swapped."""
    kept = [int(rng.integers(vocabulary)) if rng.random() < 0.1 else t for t in tokens if rng.random() > 0.1]
    if len(kept) > 1:
        i = int(rng.integers(len(kept) - 1))
        kept[i], kept[i + 1] = kept[i + 1], kept[i]
    return kept


def test_equals_sacrebleu_and_counting_on_multi30k(rng, data_dir):
    ids = {}
    references = to_ids(read_lines(data_dir / "multi30k" / "test.en.gz"), ids)
    hypotheses = [damaged(rng, tokens, len(ids)) for tokens in references]
    assert len(references) == 1000
    one_each = [[reference] for reference in references]
    check_against_sacrebleu(hypotheses, one_each)
    check_against_sacrebleu(hypotheses, one_each, k=1)
    check_against_sacrebleu(references[1:] + references[:1], one_each)  # unrelated sentences
    check_against_counting(hypotheses, one_each, smoothing=1.0)
    assert 0.3 < bleugrad.bleu(hypotheses, references, smoothing=0, level="corpus").value < 0.9


def test_equals_sacrebleu_and_counting_on_the_references_of_e2e(rng, data_dir):
    ids = {}
    lines = read_lines(data_dir / "e2e_nlg" / "test.refs.trg.gz")
    groups = [to_ids(line.split("\t"), ids) for line in lines if line.count("\t") < 12]
    assert len(groups) > 500
    hypotheses = [damaged(rng, group[0], len(ids)) for group in groups]
    others = [group[1:] or group for group in groups]
    check_against_sacrebleu(hypotheses, others)
    check_against_counting(hypotheses, others)
