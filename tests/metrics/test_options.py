"""The options of the metrics have an effect."""

import pytest
import torch

pytest.importorskip("torchmetrics")

from bleugrad import BLEU, GLEU, NIST, ROUGE
from bleugrad.metrics import ExpectedScore, TokenScore
from tests.metrics.options import check_options
from tests.metrics.test_metrics import EOS, case, guesses

STARTS = torch.arange(12) % 2 == 0
CHANGES = {
    "score": ({}, BLEU(2, (0.3, 0.7), 0.25)),
    "eos_id": ({}, EOS),
    "word_start": ({}, STARTS),
}


def inputs():
    """Logits, labels and guesses without an id below 0."""
    logits, labels = case(sentences=4)
    labels = labels[:-1].masked_fill(labels[:-1] == -100, EOS)
    labels[0, 1] = 7
    return logits[:-1], labels, guesses(logits[:-1], labels)


def measured(**options):
    logits, labels, _ = inputs()
    metric = ExpectedScore(**options)
    metric.update(logits, labels)
    return {name: value.item() for name, value in metric.compute().items()}


def test_expected_bleu():
    check_options(ExpectedScore, measured, CHANGES)


@pytest.mark.parametrize("lists", [False, True])
def test_token_bleu(lists):
    def scored(**options):
        _, labels, made = inputs()
        metric = TokenScore(**options)
        metric.update(*((made.tolist(), labels.tolist()) if lists else (made, labels)))
        return metric.compute().item()

    check_options(TokenScore, scored, CHANGES)


def test_lists_are_cut_before_their_first_end():
    """As tensors are, one or several references per sentence."""
    _, labels, made = inputs()
    several = torch.stack([labels, made.roll(1, 1)], 1)
    for references in (labels, several):
        tensors, lists = TokenScore(BLEU(), eos_id=EOS), TokenScore(BLEU(), eos_id=EOS)
        tensors.update(made, references)
        lists.update(made.tolist(), references.tolist())
        assert lists.compute() == tensors.compute()
        assert torch.equal(lists.sums, tensors.sums)


def test_the_callback():
    pytest.importorskip("lightning")
    from bleugrad.metrics import BLEUCallback

    logits, labels, made = inputs()

    def logged(**options):
        callback = BLEUCallback(**options)
        for outputs in ({"logits": logits, "labels": labels}, {"tokens": made, "labels": labels}):
            callback.on_validation_batch_end(None, None, outputs, None, 0)
        return callback.expected.compute()["score"].item(), callback.tokens.compute().item()

    check_options(BLEUCallback, logged, {name: CHANGES[name] for name in ("eos_id", "word_start")})
    for name in ("eos_id", "word_start"):  # of both metrics
        for plain, changed in zip(logged(), logged(**{name: CHANGES[name][1]}), strict=True):
            assert plain != changed


def test_every_name_is_tested():
    import bleugrad.metrics

    assert set(bleugrad.metrics.__all__) == {"BLEUCallback", "ExpectedScore", "TokenScore"}


SHARED = {name: CHANGES[name] for name in ("eos_id", "word_start")}


def test_other_scores():
    logits, labels, made = inputs()

    def expected(**options):
        metric = ExpectedScore(ROUGE(1), **options)
        metric.update(logits, labels)
        return metric.compute()["score"].item()

    def scored(**options):
        metric = TokenScore(ROUGE(1), **options)
        metric.update(made, labels)
        return metric.compute().item()

    for observe in (expected, scored):
        for name, (_, value) in SHARED.items():
            assert observe() != observe(**{name: value}), name
    with pytest.raises(TypeError, match="expected BLEU, ROUGE, ROUGEL, GLEU or NIST"):
        TokenScore("rouge2")


@pytest.mark.parametrize("score", [ROUGE(2, "f1"), GLEU(), NIST({(1,): 1.0, (2,): 0.5, (1, 2): 2.0}, 2)])
def test_batches_of_any_size_give_the_score_of_the_corpus(score):
    import bleugrad

    logits, labels, made = inputs()
    expected, scored = ExpectedScore(score), TokenScore(score)
    for part in (slice(0, 1), slice(1, None)):
        expected.update(logits[part], labels[part])
        scored.update(made[part], labels[part])
    whole = bleugrad.expected_score(logits, labels, score, mask=labels != -100).value
    torch.testing.assert_close(expected.compute()["score"], whole.double(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(scored.compute(), bleugrad.token_score(made, labels, score), rtol=0, atol=1e-12)
