"""Sharpness and positions after the end equal the loss of logits that are changed by hand."""

import pytest
import torch
import torch.nn.functional as F

import bleugrad
from tests.losses.cases import draw_batch

V, EOS, MORE = 7, 0, 3
STARTS = torch.tensor([False, True, True, False, True, True, True])
LABELS = torch.tensor([[1, 2, 3, 4, EOS], [2, 2, EOS, -100, -100], [5, EOS, -100, -100, -100], [-100] * 5])


def written_out(logits):
    """The logits with one token more, which stands for certain at three positions after the last label."""
    steps = LABELS.shape[1]
    wide = torch.full((len(LABELS), steps + MORE, V + 1), -1e4, dtype=logits.dtype)
    wide[:, :steps, :V] = logits
    lengths = (LABELS != -100).sum(1, keepdim=True)
    position = torch.arange(steps + MORE)
    after = (position >= lengths) & (position < lengths + MORE) & (lengths > 0)
    certain = torch.full((V + 1,), -1e4, dtype=logits.dtype)
    certain[V] = 1e4
    return torch.where(after[..., None], certain, wide), (position < lengths) | after


@pytest.mark.parametrize("words", [False, True], ids=["tokens", "words"])
@pytest.mark.parametrize("method", ["exact", "bound"])
def test_end_positions_hold_a_token_that_matches_nothing(seed, method, words):
    logits = torch.randn(4, 5, V, dtype=torch.float64, requires_grad=True)
    shared = {"eos_id": EOS, "level": "sentence", "reduction": "none", "method": method}
    starts = STARTS if words else None
    found = bleugrad.ExpectedBLEULoss(**shared, end_positions=MORE, word_start=starts)(logits, LABELS)
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    wide, mask = written_out(logits)
    longer = None if starts is None else torch.cat([starts, torch.tensor([True])])
    wanted = bleugrad.ExpectedBLEULoss(**shared, word_start=longer)(wide, references=LABELS, mask=mask)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-14)
    torch.testing.assert_close(gradient, torch.autograd.grad(wanted.sum(), logits)[0], rtol=0, atol=1e-14)
    assert (found[:3] - bleugrad.ExpectedBLEULoss(**shared, word_start=starts)(logits, LABELS)[:3]).abs().min() > 1e-4


def test_end_positions_raise_the_push_to_end_in_time(seed):
    """The gradient of EOS at its own place: without them a late end costs one token, with them several."""
    logits, labels = torch.randn(1, 4, V, dtype=torch.float64), torch.tensor([[1, 2, 3, EOS]])
    pushes = []
    for more in (0, MORE):
        leaf = logits.clone().requires_grad_()
        bleugrad.ExpectedBLEULoss(eos_id=EOS, end_positions=more)(leaf, labels).backward()
        pushes.append(-leaf.grad[0, 3, EOS].item())
    assert pushes[1] > 1.5 * pushes[0] > 0


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 2.0])
def test_sharper_rows_are_scored_and_the_cross_entropy_stays_that_of_the_model(seed, sharpness):
    logits, labels = draw_batch()
    hidden, weight, bias = (torch.randn(*size, dtype=torch.float64) for size in ((3, 8, 4), (9, 4), (9,)))
    loss = bleugrad.ExpectedBLEULoss(sharpness=sharpness, cross_entropy_weight=0.3, eos_id=2)
    for output, plain in (
        (logits, logits),
        (bleugrad.Projection(hidden, weight, bias), F.linear(hidden, weight, bias)),
    ):
        bleu = bleugrad.ExpectedBLEULoss(eos_id=2)(sharpness * plain, labels)
        cross_entropy = F.cross_entropy(plain.flatten(0, 1), labels.flatten())
        torch.testing.assert_close(loss(output, labels), bleu + 0.3 * cross_entropy, rtol=0, atol=1e-12)


def test_the_gradient_of_sharper_rows(seed):
    logits, labels = draw_batch(2, 4, 5)
    loss = bleugrad.ExpectedBLEULoss(sharpness=1.7, cross_entropy_weight=0.3, eos_id=2, end_positions=2)
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), (logits.requires_grad_(),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"end_positions": 2}, "end_positions is 2.*eos_id"),
        ({"end_positions": -1, "eos_id": 0}, "end_positions is -1"),
        ({"sharpness": 0.0}, "sharpness is 0"),
        ({"sharpness": -1.0}, "sharpness is -1"),
        ({"sharpness": float("nan")}, "sharpness is nan"),
    ],
)
def test_bad_values_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        bleugrad.ExpectedBLEULoss(**options)
