"""The losses in words equal expected_bleu, from logits and from hidden states, eager and compiled."""

from functools import partial

import pytest
import torch

import bleugrad
from bleugrad import ExpectedBLEULoss, Projection
from tests.losses.cases import assert_all_close, draw_batch, gradients

VOCABULARY, EOS = 9, 0
STARTS = torch.arange(VOCABULARY) % 2 == 0
OPTIONS = {
    "corpus": {},
    "sentence": {"level": "sentence", "reduction": "none", "cross_entropy_weight": 0.3},
    "eos": {"eos_id": EOS, "cross_entropy_weight": 0.3},
    "bound": {"method": "bound"},
    "bound eos": {"method": "bound", "eos_id": EOS},
}


@pytest.mark.parametrize("name", ["corpus", "bound", "bound eos"])
def test_the_loss_is_one_minus_expected_bleu(seed, name):
    logits, labels = draw_batch()
    loss = ExpectedBLEULoss(word_start=STARTS, **OPTIONS[name])(logits, labels)
    result = bleugrad.expected_bleu(logits, labels, mask=labels != -100, word_start=STARTS, **OPTIONS[name])
    torch.testing.assert_close(loss, 1 - result.value, rtol=0, atol=1e-14)
    assert (loss - ExpectedBLEULoss(**OPTIONS[name])(logits, labels)).abs() > 1e-3


@pytest.mark.parametrize("name", OPTIONS)
def test_from_hidden_states_it_is_the_same(seed, name):
    hidden, labels = draw_batch(vocabulary=5, words=VOCABULARY)
    weight, bias = (torch.randn(*shape, dtype=torch.float64) for shape in ((VOCABULARY, 5), (VOCABULARY,)))
    options = {"word_start": STARTS, **OPTIONS[name]}
    loss = ExpectedBLEULoss(**options)
    found = gradients(lambda h, w, b: loss(Projection(h, w, b), labels), hidden, weight, bias)
    assert_all_close(found, gradients(lambda h, w, b: loss(h @ w.T + b, labels), hidden, weight, bias), 1e-13)


@pytest.mark.parametrize("name", ["corpus", "eos"])
def test_gradcheck(seed, name):
    logits, labels = draw_batch(2, 5)
    loss = ExpectedBLEULoss(word_start=STARTS, **OPTIONS[name])
    # a second backward pass forms the softmax again, so it may differ in the last digit
    check = partial(torch.autograd.gradcheck, atol=1e-8, nondet_tol=1e-14)
    assert check(lambda x: loss(x, labels), (logits.requires_grad_(),))


def test_if_every_token_opens_a_word_the_loss_is_that_of_tokens(seed):
    logits, labels = draw_batch()
    everything = torch.ones(VOCABULARY, dtype=torch.bool)
    for options in OPTIONS.values():
        in_words, in_tokens = ExpectedBLEULoss(word_start=everything, **options), ExpectedBLEULoss(**options)
        found = gradients(lambda x, loss=in_words: loss(x, labels), logits)
        assert_all_close(found, gradients(lambda x, loss=in_tokens: loss(x, labels), logits), 1e-13)


def test_the_mask_moves_with_the_loss_and_is_not_saved():
    loss = ExpectedBLEULoss(word_start=STARTS)
    assert loss.to("meta").word_start.device.type == "meta"
    assert not loss.state_dict()
    assert "words" in repr(loss)
    assert "tokens" in repr(ExpectedBLEULoss())


@pytest.mark.parametrize(
    ("word_start", "exception"),
    [(torch.ones(VOCABULARY), TypeError), (STARTS[1:], ValueError), (STARTS[None], ValueError)],
)
@pytest.mark.parametrize("linear", [False, True], ids=["plain", "fused"])
def test_bad_input(seed, word_start, exception, linear):
    logits, labels = draw_batch()
    output = Projection(logits, torch.eye(VOCABULARY).double()) if linear else logits
    with pytest.raises(exception, match=r"\bword_start\b"):
        ExpectedBLEULoss(word_start=word_start)(output, labels)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["corpus", "bound eos"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_compiled_it_is_the_same(seed, name):
    """One graph, traced once, for two shapes."""
    torch.compiler.reset()
    loss = ExpectedBLEULoss(word_start=STARTS, **OPTIONS[name])
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for batch, steps in ((3, 8), (5, 6)):
        logits, labels = draw_batch(batch, steps)
        found = gradients(lambda x, labels=labels: compiled(x, labels), logits)
        assert_all_close(found, gradients(lambda x, labels=labels: loss(x, labels), logits), 1e-12)
    torch.compiler.reset()
