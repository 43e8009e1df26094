"""The recommended recipe: the share of cross-entropy, label smoothing, and the balance of the pushes on EOS."""

import math
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import bleugrad
from bleugrad.losses import recipe
from tests.losses.cases import IGNORE, draw_batch, gradients
from tests.oracles.enumeration import enumerate_statistics

EOS, FIRST, WORDS = 1, 3, 30
CLOSE = {"rtol": 0, "atol": 1e-12}


def share_of(nll):
    """The share of BLEU, from its definition."""
    likely = math.exp(-nll)
    return recipe.MOST * likely**2 / (likely**2 + recipe.HALF**2)


def test_the_share_of_bleu_rises_smoothly_with_the_probability_of_the_labels():
    nll = torch.linspace(30, 0, 3001, dtype=torch.float64, requires_grad=True)
    found = recipe.bleu_share(nll)
    assert not found.requires_grad
    wanted = torch.tensor([share_of(one) for one in nll.tolist()], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, **CLOSE)
    assert (found.diff() > 0).all()
    assert found.diff().max() < 0.01 * recipe.MOST
    assert 0.95 * recipe.MOST < found[-1] < recipe.MOST
    assert recipe.bleu_share(torch.tensor(math.inf)) == 0


def one_at_a_time(logits, labels, **options):
    """(loss, cross-entropy, labels) of each sentence alone, without padding."""
    for row, label in zip(logits, labels, strict=True):
        kept = label != IGNORE
        bleu = bleugrad.expected_bleu(row[None, kept], label[None, kept], level="sentence", **options).value[0]
        yield 1 - bleu, F.cross_entropy(row[kept], label[kept], reduction="sum"), int(kept.sum())


@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_each_sentence_has_its_own_share(seed, weight):
    logits, labels = draw_batch()

    def wanted(x):
        parts = [(share_of(n.item() / t), b, n, t) for b, n, t in one_at_a_time(x, labels, eos_id=EOS)]
        bleu = sum(share * b for share, b, _, _ in parts) / len(parts)
        return bleu + weight * sum((1 - share) * n for share, _, n, _ in parts) / sum(t for *_, t in parts)

    loss = bleugrad.ExpectedBLEULoss(eos_id=EOS, level="sentence", adaptive=True, cross_entropy_weight=weight)
    for found, own in zip(gradients(lambda x: loss(x, labels), logits), gradients(wanted, logits), strict=True):
        torch.testing.assert_close(found, own, **CLOSE)


def test_a_batch_has_one_share_at_corpus_level(seed):
    logits, labels = draw_batch()
    nll = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    bleu = bleugrad.ExpectedBLEULoss(eos_id=EOS)(logits, labels)
    found = bleugrad.ExpectedBLEULoss(eos_id=EOS, adaptive=True, cross_entropy_weight=1.0)(logits, labels)
    share = share_of(nll.item())
    torch.testing.assert_close(found, share * bleu + (1 - share) * nll, **CLOSE)


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_reductions_keep_the_shares(seed, reduction):
    logits, labels = draw_batch()
    recipe_of_sentences = {"eos_id": EOS, "level": "sentence"}
    loss = bleugrad.ExpectedBLEULoss.recommended(**recipe_of_sentences, reduction=reduction)
    alone = torch.stack(
        [
            bleugrad.ExpectedBLEULoss.recommended(**recipe_of_sentences)(row[None], label[None])
            for row, label in zip(logits, labels, strict=True)
        ]
    )
    torch.testing.assert_close(loss(logits, labels), alone if reduction == "none" else alone.sum(), **CLOSE)


@pytest.mark.parametrize("smoothing", [0.1, 1.0])
@pytest.mark.parametrize("options", [{}, {"adaptive": True}])
def test_labels_are_smoothed_as_torch_does_it(seed, smoothing, options):
    """Plain and fused, in value and gradient; the share of BLEU is that of the labels themselves."""
    _, labels = draw_batch()
    hidden, weight, bias = (torch.randn(*size, dtype=torch.float64) for size in ((3, 8, 4), (9, 4), (9,)))
    options = options | {"eos_id": EOS, "cross_entropy_weight": 0.7}

    def wanted(*given):
        logits = F.linear(*given)
        rows = logits.flatten(0, 1), labels.flatten()
        nll = F.cross_entropy(*rows)
        more = (1 - share_of(nll.item()) if options.get("adaptive") else 1) * 0.7
        return bleugrad.ExpectedBLEULoss(**options)(logits, labels) + more * (
            F.cross_entropy(*rows, label_smoothing=smoothing) - nll
        )

    loss = bleugrad.ExpectedBLEULoss(label_smoothing=smoothing, **options)
    fused = gradients(lambda *given: loss(bleugrad.Projection(*given), labels), hidden, weight, bias)
    plain = gradients(lambda *given: loss(F.linear(*given), labels), hidden, weight, bias)
    for one, two, three in zip(fused, plain, gradients(wanted, hidden, weight, bias), strict=True):
        torch.testing.assert_close(one, three, **CLOSE)
        torch.testing.assert_close(two, three, **CLOSE)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.2}, {"word_start": torch.arange(5) != 3}])
def test_the_gradient_of_the_recipe(seed, options):
    """The share has none, so it is held at its value."""
    logits, labels = draw_batch(2, 4, 5)
    loss = bleugrad.ExpectedBLEULoss.recommended(eos_id=EOS, **options)
    log_probs = logits.log_softmax(-1).gather(2, labels.clamp(min=0)[..., None]).squeeze(2)
    held = recipe.adaptive_share(log_probs, labels != IGNORE, recipe.LEVEL, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bleugrad.losses.expected.adaptive_share", lambda *_: held)
        assert torch.autograd.gradcheck(lambda x: loss(x, labels), (logits.requires_grad_(),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_smoothing": 1.5}, "label_smoothing is 1.5; expected 0 to 1"),
        ({"label_smoothing": -0.1}, "label_smoothing is -0.1"),
        ({"adaptive": True}, "adaptive is True, but cross_entropy_weight is 0"),
        ({"end_positions": 3}, "end_positions is 3 without eos_id"),
    ],
)
def test_bad_values_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        bleugrad.ExpectedBLEULoss(**options)


def sentences(shortest, longest):
    """64 sentences of words with Zipf's frequencies, each with an end."""
    draw = random.Random(0)
    frequencies = [1 / (rank + 1) for rank in range(WORDS - FIRST)]
    lengths = [draw.randint(shortest, longest) for _ in range(64)]
    return [[*draw.choices(range(FIRST, WORDS), frequencies, k=length), EOS] for length in lengths]


def calibrated_rows(texts, certain):
    """Logits (64, T, V) of the bigram frequencies, mixed with the truth: as often as EOS comes, it is predicted."""
    counts = torch.full((WORDS, WORDS), 1e-4, dtype=torch.float64)
    for text in texts:
        for before, word in zip([0, *text], text, strict=False):
            counts[before, word] += 1
    labels = torch.full((len(texts), max(map(len, texts))), IGNORE)
    for row, text in zip(labels, texts, strict=True):
        row[: len(text)] = torch.tensor(text)
    before = F.pad(labels[:, :-1].clamp(min=0), (1, 0))
    rows = (counts / counts.sum(1, keepdim=True))[before]
    truth = F.one_hot(labels.clamp(min=0), WORDS)
    return ((1 - certain) * rows + certain * truth).clamp(min=1e-9).log(), labels


def push(loss, logits, labels, end):
    """How hard the gradient lowers EOS if its logits are ``end`` higher; negative if it raises EOS."""
    moved = logits.clone()
    moved[..., EOS] += end
    _, grad = gradients(lambda x: loss(x, labels), moved)
    return grad[..., EOS].sum().item()


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("certain", [0.0, 0.3, 0.7, 0.9])
@pytest.mark.parametrize("lengths", [(3, 9), (8, 22), (15, 35)])
def test_a_wrong_length_is_corrected(words, certain, lengths):
    """EOS falls where it is too likely, and rises where it is not likely enough; a right one is left nearly alone."""
    logits, labels = calibrated_rows(sentences(*lengths), certain)
    starts = torch.arange(WORDS) % 3 != 0 if words else None
    loss = bleugrad.ExpectedBLEULoss.recommended(eos_id=EOS, word_start=starts)
    found = {end: push(loss, logits, labels, end) for end in (-1.5, -0.5, 0, 0.5, 1.5)}
    assert max(found[-1.5], found[-0.5]) < 0 < min(found[0.5], found[1.5])
    assert abs(found[0]) < 0.5 * max(-found[-1.5], -found[-0.5], found[0.5], found[1.5])


@pytest.mark.parametrize("certain", [0.7, 0.9])
@pytest.mark.parametrize("lengths", [(8, 22), (15, 35)])
def test_without_positions_after_the_end_a_right_length_grows(certain, lengths):
    logits, labels = calibrated_rows(sentences(*lengths), certain)
    without, recommended = (
        push(bleugrad.ExpectedBLEULoss.recommended(eos_id=EOS, end_positions=number), logits, labels, 0)
        for number in (0, recipe.END_POSITIONS)
    )
    assert without > 2 * abs(recommended)


def enumerated_loss(logits, label):
    """The recipe of one sentence that ends in EOS, by enumeration of all its hypotheses in tokens."""
    tokens, log_probs = label[:-1], logits - np.log(np.exp(logits).sum(1, keepdims=True))
    nll = -log_probs[np.arange(len(label)), label].mean()
    sharp = np.exp(recipe.SHARPNESS * log_probs)
    rows = np.pad(sharp / sharp.sum(1, keepdims=True), ((0, 0), (0, 1)))
    after = np.zeros((recipe.END_POSITIONS, rows.shape[1]))
    after[:, -1] = 1  # a token that is in no reference
    found = enumerate_statistics(np.concatenate([rows, after]), [tokens], eos_id=EOS)
    precisions = (found.mean(found.matches) + 1) / (found.mean(found.totals) + 1)
    bleu = found.mean(found.penalties) * precisions.prod() ** 0.25
    return (1 - share_of(nll)) * nll + share_of(nll) * (1 - bleu), nll, 1 - bleu


@pytest.mark.parametrize("label", [[2, 0, EOS], [0, 0, 2, EOS], [3, EOS]])
def test_value_and_gradient_are_those_of_an_enumeration(seed, label):
    """The gradient by central differences, with the share of BLEU held."""
    logits = torch.randn(1, len(label), 4, dtype=torch.float64)
    loss = bleugrad.ExpectedBLEULoss.recommended(eos_id=EOS)
    value, grad = gradients(lambda x: loss(x, torch.tensor([label])), logits)
    wanted, nll, _ = enumerated_loss(logits[0].numpy(), label)
    assert value.item() == pytest.approx(wanted, abs=1e-12)
    share, step = share_of(nll), 1e-5
    for place in np.ndindex(len(label), 4):
        ends = []
        for sign in (1, -1):
            moved = logits[0].numpy().copy()
            moved[place] += sign * step
            _, nll, rest = enumerated_loss(moved, label)
            ends.append((1 - share) * nll + share * rest)
        assert grad[0][place].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-8)
