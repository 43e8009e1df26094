"""Labels as for cross-entropy: ignored positions may be anywhere, and the loss is that of sentences without them."""

import math

import pytest
import torch

import bleugrad
from bleugrad import ExpectedBLEULoss, Projection
from tests.losses.cases import IGNORE

VOCABULARY, WIDTH, EOS = 7, 14, 0


def right_padded(length):
    return list(range(length))


def left_padded(length):
    return list(range(WIDTH - length, WIDTH))


def after_a_prompt(length):
    return list(range(3, 3 + length))


def with_holes(length):
    return sorted(torch.randperm(WIDTH)[:length].tolist())


LAYOUTS = (right_padded, left_padded, after_a_prompt, with_holes)


def draw_sentences(lengths, eos_id):
    """Pairs of logits (n, V) and ids (n,); with an EOS, two of three end with it."""
    sentences = []
    for index, length in enumerate(lengths):
        ids = torch.randint(1, VOCABULARY, (length,))
        if eos_id is not None and length and index % 3:
            ids[-1] = eos_id
        sentences.append((torch.randn(length, VOCABULARY, dtype=torch.float64), ids))
    return sentences


def lay_out(sentences, layout, filler=0.0):
    """Logits (B, WIDTH, V) with `filler` where nothing counts, and labels (B, WIDTH)."""
    logits = torch.full((len(sentences), WIDTH, VOCABULARY), filler, dtype=torch.float64)
    labels = torch.full((len(sentences), WIDTH), IGNORE)
    for b, (rows, ids) in enumerate(sentences):
        positions = layout(len(ids))
        logits[b, positions], labels[b, positions] = rows, ids
    return logits, labels


def compact_losses(sentences, method, eos_id):
    """1 - BLEU of every sentence, alone in its batch and with nothing to ignore."""
    return torch.stack(
        [
            1 - bleugrad.expected_bleu(rows[None], [ids.tolist()], method=method, eos_id=eos_id, level="sentence").value
            for rows, ids in sentences
        ]
    ).squeeze(1)


def compact_corpus_loss(sentences, method):
    """1 - corpus BLEU from the statistics of the single sentences; smoothing 1, no EOS: lengths equal, so BP is 1."""
    results = [bleugrad.expected_bleu(rows[None], [ids.tolist()], method=method) for rows, ids in sentences]
    matches = sum(result.matches[0] for result in results)
    totals = [sum(max(len(ids) - n, 0) for _, ids in sentences) for n in range(4)]
    return 1 - math.prod((matches[n] + 1) / (totals[n] + 1) for n in range(4)) ** 0.25


def compact(sentences, function):
    """The value and the gradient of the rows of each sentence."""
    leaves = [(rows.clone().requires_grad_(), ids) for rows, ids in sentences]
    value = function(leaves)
    grads = torch.autograd.grad(value.sum(), [rows for rows, _ in leaves], allow_unused=True)
    return value.detach(), [torch.zeros_like(s[0]) if g is None else g for g, s in zip(grads, sentences, strict=True)]


def check(sentences, layout, loss, wanted, filler):
    """Value, gradient of what counts, and none at what does not."""
    torch.manual_seed(5)  # the holes
    logits, labels = lay_out(sentences, layout, filler)
    logits.requires_grad_()
    value = loss(logits, labels)
    value.sum().backward()
    torch.testing.assert_close(value.detach(), wanted[0], rtol=0, atol=1e-13)
    for b, grad in enumerate(wanted[1]):
        torch.testing.assert_close(logits.grad[b][labels[b] != IGNORE], grad, rtol=0, atol=1e-13)
    assert (logits.grad[labels == IGNORE] == 0).all()


FILLERS = pytest.mark.parametrize("filler", [0.0, 50.0, torch.nan, torch.inf])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("eos_id", [None, EOS])
@FILLERS
def test_sentence_level(seed, layout, method, eos_id, filler):
    sentences = draw_sentences([5, 1, 9, 3], eos_id)
    wanted = compact(sentences, lambda s: compact_losses(s, method, eos_id))
    loss = ExpectedBLEULoss(method=method, level="sentence", reduction="none", eos_id=eos_id)
    check(sentences, layout, loss, wanted, filler)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("method", ["exact", "bound"])
@FILLERS
def test_corpus_level(seed, layout, method, filler):
    sentences = draw_sentences([5, 1, 9, 3], None)
    wanted = compact(sentences, lambda s: compact_corpus_loss(s, method))
    check(sentences, layout, ExpectedBLEULoss(method=method), wanted, filler)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("eos_id", [None, EOS])
def test_corpus_level_with_cross_entropy_and_sentences_of_one_length(seed, layout, method, eos_id):
    """So that the compact batch needs no padding at all."""
    sentences = draw_sentences([6, 6, 6, 6], eos_id)
    loss = ExpectedBLEULoss(method=method, eos_id=eos_id, cross_entropy_weight=0.3)

    def stacked(sentences):
        logits, labels = (torch.stack(parts) for parts in zip(*sentences, strict=True))
        assert (labels != IGNORE).all()
        bleu = bleugrad.expected_bleu(logits, labels, method=method, eos_id=eos_id).value
        return 1 - bleu + 0.3 * torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    check(sentences, layout, loss, compact(sentences, stacked), 1.0)
    check(sentences, layout, loss, compact(sentences, stacked), torch.nan)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("eos_id", [None, EOS])
def test_rows_with_nothing_in_them(seed, layout, eos_id):
    sentences = draw_sentences([4, 0, 6, 0], eos_id)
    kept = [s for s in sentences if len(s[1])]
    value, grads = compact(kept, lambda s: compact_losses(s, "exact", eos_id).mean())
    nothing = torch.zeros(0, VOCABULARY, dtype=torch.float64)
    wanted = value, [grads[0], nothing, grads[1], nothing]
    check(sentences, layout, ExpectedBLEULoss(level="sentence", eos_id=eos_id), wanted, torch.nan)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ignore_index", [-100, -1, 0, 6])
def test_the_ignore_index(seed, layout, ignore_index):
    """Any id, also one of the vocabulary (the padding word), or below 0."""
    sentences = [(rows, ids.clamp(2, 5)) for rows, ids in draw_sentences([5, 3, 9], None)]
    logits, labels = lay_out(sentences, layout)
    wanted = ExpectedBLEULoss(cross_entropy_weight=0.5)(logits, labels)
    renamed = labels.where(labels != IGNORE, ignore_index)
    found = ExpectedBLEULoss(cross_entropy_weight=0.5, ignore_index=ignore_index)(logits, renamed)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-14)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_fused_loss(seed, layout):
    sentences = draw_sentences([5, 1, 9, 3], None)
    wanted = compact(sentences, lambda s: compact_corpus_loss(s, "exact"))
    identity = torch.eye(VOCABULARY, dtype=torch.float64)
    check(sentences, layout, lambda x, y: ExpectedBLEULoss()(Projection(x, identity), y), wanted, torch.nan)


def test_a_causal_model_shifts_its_labels_by_slicing(seed):
    """logits[:, :-1] and labels[:, 1:] are views, not contiguous, with the prompt masked."""
    logits, labels = lay_out(draw_sentences([5, 8, 3], None), after_a_prompt)
    loss = ExpectedBLEULoss(cross_entropy_weight=0.5)
    wanted = loss(logits[:, :-1].contiguous(), labels[:, 1:].contiguous())
    assert torch.equal(loss(logits[:, :-1], labels[:, 1:]), wanted)


def test_after_the_first_eos_the_labels_are_no_reference(seed):
    """Padding with EOS instead of ignore_index: the reference ends at the first one."""
    logits, _ = lay_out(draw_sentences([6], None), right_padded)
    labels = torch.full((1, WIDTH), EOS)
    labels[0, :4] = torch.tensor([3, 1, 4, 1])
    wanted = 1 - bleugrad.expected_bleu(logits, [[3, 1, 4, 1]], eos_id=EOS).value
    torch.testing.assert_close(ExpectedBLEULoss(eos_id=EOS)(logits, labels), wanted, rtol=0, atol=1e-14)
