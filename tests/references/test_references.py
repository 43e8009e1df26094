"""All accepted forms of references: tensors, lists, several references, padded, empty."""

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import assert_near, assert_same
from tests.oracles import counting

SENTENCE = {"smoothing": 0, "level": "sentence"}
FIVE = torch.zeros(1, 5, 3, dtype=torch.float64)  # five uniform rows over three words


def padded(references, ignore_index=-100, width=None):
    """Nested lists as a (B, K, R) tensor."""
    most = max(map(len, references))
    width = width or max(len(reference) for own in references for reference in own)
    tensor = torch.full((len(references), most, width), ignore_index)
    for b, own in enumerate(references):
        for k, reference in enumerate(own):
            tensor[b, k, : len(reference)] = torch.tensor(reference, dtype=torch.long)
    return tensor


def scatter(rng, tensor, ignore_index):
    """The same tokens in the same order, with padding put between them."""
    wide = torch.full((*tensor.shape[:-1], tensor.shape[-1] + 4), ignore_index)
    for index in np.ndindex(*tensor.shape[:-1]):
        places = np.sort(rng.choice(wide.shape[-1], size=tensor.shape[-1], replace=False))
        wide[index][torch.from_numpy(places)] = tensor[index]
    return wide


@pytest.mark.parametrize("ignore_index", [-100, 0])
@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("eos_id", [None, 2])
def test_tensors_and_nested_lists_are_the_same(rng, ignore_index, method, eos_id):
    for _ in range(10):
        references = [
            [rng.integers(1, 4, size=rng.integers(1, 7)).tolist() for _ in range(rng.integers(1, 4))] for _ in range(4)
        ]
        logits = torch.from_numpy(rng.normal(size=(4, 5, 4)))
        hypotheses = torch.from_numpy(rng.integers(1, 4, size=(4, 6)))
        as_tensor = padded(references, ignore_index)
        options = {"method": method, "eos_id": eos_id, "ignore_index": ignore_index}
        expected = bleugrad.expected_bleu(logits, references, **options)
        counted = bleugrad.bleu(hypotheses, references, ignore_index=ignore_index, **SENTENCE)
        for form in (as_tensor, scatter(rng, as_tensor, ignore_index), as_tensor.tolist()):
            assert_same(bleugrad.expected_bleu(logits, form, **options), expected)
            assert_same(bleugrad.bleu(hypotheses, form, ignore_index=ignore_index, **SENTENCE), counted)


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_one_reference_each_in_two_and_three_dimensions(rng, smoothing):
    logits = torch.from_numpy(rng.normal(size=(3, 5, 4)))
    hypotheses = torch.from_numpy(rng.integers(0, 4, size=(3, 6)))
    flat = torch.from_numpy(rng.integers(0, 4, size=(3, 6)))
    expected = bleugrad.expected_bleu(logits, flat, smoothing=smoothing)
    assert expected.lower is not None
    for form in (flat[:, None], flat.tolist(), flat[:, None].tolist()):
        assert_same(bleugrad.expected_bleu(logits, form, smoothing=smoothing), expected)
        assert_same(bleugrad.bleu(hypotheses, form, **SENTENCE), bleugrad.bleu(hypotheses, flat, **SENTENCE))


@pytest.mark.parametrize("method", ["exact", "bound"])
def test_repeating_a_reference_changes_nothing(rng, method):
    """Clipping takes the maximum over references, never the sum."""
    for _ in range(10):
        logits = torch.from_numpy(rng.normal(size=(3, 5, 3)))
        hypotheses = torch.from_numpy(rng.integers(0, 3, size=(3, 6)))
        once = torch.from_numpy(rng.integers(0, 3, size=(3, 2, 6)))
        many = once[:, [0, 1, 0, 1, 1]]
        options = {"method": method, "smoothing": 1.0}
        assert_same(bleugrad.expected_bleu(logits, many, **options), bleugrad.expected_bleu(logits, once, **options))
        assert_same(bleugrad.bleu(hypotheses, many, **SENTENCE), bleugrad.bleu(hypotheses, once, **SENTENCE))


@pytest.mark.parametrize("method", ["exact", "bound"])
def test_the_order_of_references_does_not_matter(rng, method):
    for _ in range(10):
        logits = torch.from_numpy(rng.normal(size=(2, 5, 3)))
        references = [[rng.integers(0, 3, size=size).tolist() for size in (2, 5, 7)] for _ in range(2)]
        backwards = [own[::-1] for own in references]
        for eos_id in (None, 1):
            first, second = (
                bleugrad.expected_bleu(logits, r, method=method, eos_id=eos_id) for r in (references, backwards)
            )
            assert_same(first, second)


def test_ngrams_do_not_cross_from_one_reference_into_the_next():
    result = bleugrad.bleu([[0, 1, 2, 0]], [[[0, 1], [2, 0]]], max_order=2, **SENTENCE)
    assert result.matches.tolist() == [[3, 2]]  # "0 1" and "2 0", never "1 2"; one 0 in each reference


def test_ties_of_the_closest_length_go_to_the_shorter():
    references = [[0] * 4, [0] * 6]
    assert bleugrad.bleu([[0] * 5], [references]).reference_lengths.tolist() == [4]
    assert bleugrad.bleu([[0] * 5], [references[::-1]]).reference_lengths.tolist() == [4]
    assert bleugrad.expected_bleu(FIVE, [references], level="sentence").reference_lengths.tolist() == [4]


def test_the_closest_length_of_a_random_length_is_taken_length_by_length():
    """Lengths 0, 1, 2 have probability 1/2, 1/4, 1/4; of references of 1 and 4 words the nearest is 1."""
    logits = torch.zeros(1, 2, 2, dtype=torch.float64)
    result = bleugrad.expected_bleu(logits, [[[0], [0] * 4]], eos_id=1, level="sentence")
    assert_near(result.reference_lengths, [1.0], 1e-14)
    assert_near(result.brevity_penalty, [0.5], 1e-14)
    result = bleugrad.expected_bleu(logits, [[[0], [0] * 2]], eos_id=1, level="sentence")
    assert_near(result.reference_lengths, [1.25], 1e-14)


@pytest.mark.parametrize("empty", [[[], [0, 1, 2, 0]], [[0, 1, 2, 0], []], [[0, 1, 2, 0], [], []]])
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_an_empty_reference_among_several_is_absent(empty, smoothing):
    alone = [[[0, 1, 2, 0]]]
    assert_same(bleugrad.bleu([[0]], [empty], **SENTENCE), bleugrad.bleu([[0]], alone, **SENTENCE))
    for form in ([empty], padded([empty])):
        for level in ("sentence", "corpus"):
            options = {"smoothing": smoothing, "level": level}
            result = bleugrad.expected_bleu(FIVE[:, :1], form, **options)
            assert_same(result, bleugrad.expected_bleu(FIVE[:, :1], alone, **options))


def test_a_reference_that_begins_with_eos_is_empty():
    both = bleugrad.expected_bleu(FIVE, [[[2, 0, 0, 0], [0, 1, 2, 1]]], eos_id=2)
    assert_same(both, bleugrad.expected_bleu(FIVE, [[[0, 1]]], eos_id=2))


@pytest.mark.parametrize("empty", [[[]], [[[]]], [[[], []]], torch.full((1, 3), -100), torch.full((1, 2, 3), -100)])
def test_if_all_references_are_empty_the_reference_has_length_zero(empty):
    result = bleugrad.bleu([[0, 1]], empty, smoothing=1.0, level="sentence")
    assert result.reference_lengths.tolist() == [0]
    assert result.matches.tolist() == [[0] * 4]
    assert result.value.item() == pytest.approx(counting.sentence_bleu([0, 1], [[]], smoothing=1.0))
    expected = bleugrad.expected_bleu(FIVE, empty, level="sentence")
    assert_near(expected.reference_lengths, [0.0])
    assert_near(expected.matches, [[0.0] * 4])
    assert_near(expected.value, [(1 / 6 * 1 / 5 * 1 / 4 * 1 / 3) ** 0.25])


def test_sentences_may_have_different_numbers_of_references(rng):
    references = [[[0, 1, 2]], [[0, 0], [1, 1, 1], [2]], [[2, 1], [0, 1, 0, 1]]]
    logits = torch.from_numpy(rng.normal(size=(3, 5, 3)))
    together = bleugrad.expected_bleu(logits, references, level="sentence")
    for b, own in enumerate(references):
        alone = bleugrad.expected_bleu(logits[b : b + 1], [own], level="sentence")
        assert_near(together.matches[b], alone.matches[0].tolist(), 1e-13)
        assert_near(together.value[b], alone.value.item(), 1e-13)
