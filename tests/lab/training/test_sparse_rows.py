"""Rows with few tokens equal dense rows with the same probabilities."""

import pytest
import torch

import bleugrad
from bleugrad.lab.training.objectives.beams import SparseRows


def make_case(vocabulary=9):
    tokens = torch.randint(vocabulary, (3, 6, 4))  # with repetitions inside rows
    probs = torch.rand(3, 6, 4, dtype=torch.float64)
    return tokens, probs / probs.sum(2, keepdim=True), torch.randint(vocabulary, (3, 5))


def dense(tokens, probs, vocabulary=9):
    rows = torch.zeros(*tokens.shape[:2], vocabulary, dtype=probs.dtype)
    for b, t, c in torch.cartesian_prod(*map(torch.arange, tokens.shape)).tolist():
        rows[b, t, tokens[b, t, c]] = rows[b, t, tokens[b, t, c]] + probs[b, t, c]
    return rows


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("eos_id", [None, 4])
@pytest.mark.parametrize("method", ["exact", "bound"])
def test_value_and_gradient_are_those_of_dense_rows(seed, method, eos_id, words):
    tokens, probs, references = make_case()
    options = {"method": method, "eos_id": eos_id, "word_start": torch.arange(9) % 3 != 1 if words else None}
    mask = torch.arange(6) < torch.tensor([6, 4, 1])[:, None]
    found, wanted = probs.clone().requires_grad_(), probs.clone().requires_grad_()
    loss = bleugrad.ExpectedBLEULoss(**options)
    value = loss(SparseRows(tokens, found, 9), references=references, mask=mask)
    expected = loss(dense(tokens, wanted).clamp(min=1e-300).log(), references=references, mask=mask)
    torch.testing.assert_close(value, expected)
    value.backward()
    expected.backward()

    def along_the_simplex(gradient):  # a softmax of log-probabilities normalises, so its gradient sums to 0 in a row
        return gradient - (gradient * probs).sum(2, keepdim=True)

    torch.testing.assert_close(along_the_simplex(found.grad), along_the_simplex(wanted.grad), rtol=1e-6, atol=1e-9)


def test_bad_input_is_named(seed):
    tokens, probs, references = make_case()
    with pytest.raises(
        ValueError, match=r"tokens is torch.int64 \(3, 6, 3\); expected token ids of the shape of probs"
    ):
        SparseRows(tokens[..., 1:], probs, 9)
    with pytest.raises(TypeError, match="expected no cross-entropy"):
        bleugrad.ExpectedBLEULoss(cross_entropy_weight=1.0)(SparseRows(tokens, probs, 9), tokens[..., 0])
    with pytest.raises(TypeError, match=r"sharpness is 2\.0, but SparseRows supports 1 only"):
        bleugrad.ExpectedBLEULoss(sharpness=2.0)(SparseRows(tokens, probs, 9), references=references)
