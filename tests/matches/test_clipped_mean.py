"""min(E[count], c) of independent rows against enumeration; tests/outputs covers CTC and graphs."""

import pytest
import torch

import bleugrad
from tests.cases import FAMILIES, assert_near, draw_cases
from tests.oracles.enumeration import PAD, enumerate_sequences
from tests.oracles.one_pass import clipped_mean


def outputs_of(case, b):
    sequences, probs = enumerate_sequences(case.rows(b), case.eos_id)
    tokens = (tuple(token for token in row if token != PAD) for row in sequences.tolist())
    return dict(zip(tokens, probs, strict=True))


@pytest.mark.parametrize("eos", [False, True], ids=["fixed", "eos"])
@pytest.mark.parametrize("family", FAMILIES)
def test_rows(family, eos):
    for case in draw_cases(40, family, 5, eos=eos):
        found = bleugrad.expected_bleu(case.logits, case.references, method="clipped_mean", **case.keywords)
        wanted = [clipped_mean(outputs_of(case, b), case.cut_references(b)) for b in range(case.batch)]
        assert_near(found.matches, wanted, 1e-12)
        exact = bleugrad.expected_bleu(case.logits, case.references, **case.keywords)
        assert (exact.matches <= found.matches + 1e-12).all()
        torch.testing.assert_close(found.totals, exact.totals)
        torch.testing.assert_close(found.upper, exact.upper)


def test_order_two_alone_is_a_loss(seed):
    """The published objective: one order, no smoothing needed."""
    logits, labels = torch.randn(3, 6, 5, dtype=torch.float64, requires_grad=True), torch.randint(5, (3, 6))
    loss = bleugrad.ExpectedBLEULoss(method="clipped_mean", max_order=2, weights=(0, 1), smoothing=0.0)
    found = bleugrad.expected_bleu(logits, labels, method="clipped_mean", max_order=2)
    wanted = 1 - found.matches[:, 1].sum() / found.totals[:, 1].sum()
    torch.testing.assert_close(loss(logits, labels), wanted)
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), logits)


def test_not_of_words():
    starts = torch.ones(5, dtype=torch.bool)
    with pytest.raises(ValueError, match="method is 'clipped_mean', but word_start is given"):
        bleugrad.expected_bleu(torch.zeros(1, 3, 5), [[1, 2]], method="clipped_mean", word_start=starts)
