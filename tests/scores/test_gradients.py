"""Gradients are correct (float64 gradcheck), and finite if probabilities are 0 or 1 or nothing matches."""

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import one_hot_logits
from tests.oracles.enumeration import enumerate_statistics

METHODS = ("exact", "bound")
SINGLE = [[[0, 1, 0, 1, 2]], [[2, 2, 2]]]
SEVERAL = [[[0, 1, 0], [1, 0, 1, 1, 0, 2]], [[2, 2], [0], [1, 2, 2, 2]]]
HOLES = torch.tensor([[True, True, False, True, True], [True, False, True, True, True]])


def floating_fields(result):
    return (
        result.value,
        result.matches,
        result.totals,
        result.precisions,
        result.brevity_penalty,
        result.upper,
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("level", ["sentence", "corpus"])
@pytest.mark.parametrize("eos_id", [None, 3])
@pytest.mark.parametrize("references", [SINGLE, SEVERAL], ids=["single", "several"])
@pytest.mark.parametrize("mask", [None, HOLES], ids=["full", "holes"])
def test_gradcheck(rng, method, level, eos_id, references, mask):
    logits = torch.from_numpy(rng.normal(size=(2, 5, 4))).requires_grad_()

    def value_and_statistics(logits):
        result = bleugrad.expected_bleu(
            logits,
            references,
            method=method,
            level=level,
            eos_id=eos_id,
            mask=mask,
            max_order=3,
            smoothing=0.7,
        )
        return result.value, result.matches, result.brevity_penalty, result.hypothesis_lengths

    assert torch.autograd.gradcheck(value_and_statistics, (logits,), atol=1e-8, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 3])
def test_gradcheck_without_smoothing_and_with_a_single_order(rng, method, eos_id):
    logits = torch.from_numpy(rng.normal(size=(2, 6, 4))).requires_grad_()
    references = [[[0, 1, 0, 1, 2, 0]], [[2, 2, 2, 2]]]
    for weights in (None, [0.0, 0.0, 0.0, 1.0]):

        def value(logits, weights=weights):
            return bleugrad.expected_bleu(
                logits, references, method=method, eos_id=eos_id, weights=weights, smoothing=0.0
            ).value

        assert torch.autograd.gradcheck(value, (logits,), atol=1e-8, rtol=1e-5)


@pytest.mark.parametrize("eos_id", [None, 3])
def test_gradients_are_those_of_the_enumerated_expectation(rng, eos_id):
    """Not only consistent with the forward pass: d E[O_n] / d logits from the sum over all sequences."""
    logits = torch.from_numpy(rng.normal(size=(1, 4, 4))).requires_grad_()
    reference = [0, 0, 1, 0]
    result = bleugrad.expected_bleu(logits, [[reference]], eos_id=eos_id, max_order=2)

    def expectation(array):
        weights = np.exp(array - array.max(-1, keepdims=True))
        table = enumerate_statistics(weights / weights.sum(-1, keepdims=True), [reference], 2, eos_id)
        return table.mean(table.matches)

    base, step = logits.detach()[0].numpy(), 1e-5
    for n in (0, 1):
        (gradient,) = torch.autograd.grad(result.matches[0, n], logits, retain_graph=True)
        for index in np.ndindex(base.shape):
            shift = np.zeros_like(base)
            shift[index] = step
            numeric = (expectation(base + shift)[n] - expectation(base - shift)[n]) / (2 * step)
            assert gradient[0][index].item() == pytest.approx(numeric, abs=1e-9)


def check_finite(logits, references, **options):
    logits = logits.clone().requires_grad_()
    for level in ("sentence", "corpus"):
        for method in METHODS:
            result = bleugrad.expected_bleu(logits, references, method=method, level=level, **options)
            for field in floating_fields(result):
                assert field.isfinite().all()
            if result.lower is not None:
                assert result.lower.isfinite().all()
            (gradient,) = torch.autograd.grad(result.value.sum(), logits)
            assert gradient.isfinite().all(), (method, level, options)
    return gradient


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
@pytest.mark.parametrize("eos_id", [None, 3])
@pytest.mark.parametrize("references", [SINGLE, SEVERAL], ids=["single", "several"])
@pytest.mark.parametrize("scale", [30.0, 100.0, 1e4])
def test_finite_at_one_hot_rows(rng, dtype, smoothing, eos_id, references, scale):
    """Perfect, partial and no matches; with an EOS at the start, inside, and nowhere."""
    for tokens in (
        [[0, 1, 0, 1, 2], [2, 2, 2, 3, 3]],
        [[0, 0, 0, 0, 0], [0, 0, 1, 1, 1]],
        [[3, 3, 3, 3, 3], [3, 0, 1, 2, 0]],
        rng.integers(0, 4, size=(2, 5)),
    ):
        logits = one_hot_logits(tokens, 4, dtype, scale)
        check_finite(logits, references, smoothing=smoothing, eos_id=eos_id)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
@pytest.mark.parametrize("eos_id", [None, 3])
def test_finite_where_nothing_counts_or_nothing_can_match(rng, dtype, smoothing, eos_id):
    options = {"smoothing": smoothing, "eos_id": eos_id}
    logits = torch.from_numpy(rng.normal(size=(2, 5, 4))).to(dtype)
    empty_batch = torch.zeros(2, 5, dtype=torch.bool)
    one_empty = torch.tensor([[True] * 5, [False] * 5])
    for references in (SINGLE, SEVERAL, [[[]], [[0, 1]]], [[[]], [[]]]):
        for mask in (empty_batch, one_empty, HOLES):
            check_finite(logits, references, mask=mask, **options)
        for steps in (1, 2, 3):  # below the highest order
            check_finite(logits[:, :steps], references, **options)
    forbidden = logits.clone()
    forbidden[..., :3] = -1e4  # zero matches: only word 3 is possible
    check_finite(forbidden, SINGLE, **options)


@pytest.mark.parametrize("eos_id", [None, 3])
def test_finite_with_logits_of_minus_infinity(rng, eos_id):
    logits = torch.from_numpy(rng.normal(size=(2, 5, 4)))
    for forbidden in (1, 3):
        with_infinity = logits.clone()
        with_infinity[..., forbidden] = -torch.inf
        gradient = check_finite(with_infinity, SINGLE, eos_id=eos_id)
        assert (gradient[..., forbidden] == 0).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 3])
def test_masked_out_positions_have_no_gradient_even_when_they_are_nan(rng, method, eos_id):
    logits = torch.from_numpy(rng.normal(size=(2, 5, 4)))
    gradients = []
    for filler in (0.0, 7.0, torch.nan, torch.inf):
        filled = torch.where(HOLES[..., None], logits, filler).requires_grad_()
        result = bleugrad.expected_bleu(filled, SINGLE, method=method, mask=HOLES, eos_id=eos_id)
        result.value.backward()
        gradients.append(filled.grad)
        assert (filled.grad[~HOLES] == 0).all()
        assert (filled.grad[HOLES].abs().sum(-1) > 0).all()
    for gradient in gradients[1:]:
        torch.testing.assert_close(gradient, gradients[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("method", METHODS)
def test_ascent_spells_the_reference(rng, method):
    """From 16 starts that lean to the reference; some end in another local optimum, most spell it."""
    reference = torch.tensor([[3, 1, 4, 1, 5, 0]]).expand(16, 6)
    start = rng.normal(size=(16, 6, 8)) + 1.5 * torch.nn.functional.one_hot(reference, 8).numpy()
    logits = torch.from_numpy(start).requires_grad_()
    assert (bleugrad.bleu(logits.argmax(-1), reference, smoothing=0, level="sentence").value == 1).double().mean() < 0.2
    optimizer = torch.optim.Adam([logits], lr=0.2)
    for _ in range(60):
        optimizer.zero_grad()
        (-bleugrad.expected_bleu(logits, reference, method=method, level="sentence").value.sum()).backward()
        optimizer.step()
    assert (bleugrad.bleu(logits.argmax(-1), reference, smoothing=0, level="sentence").value == 1).double().mean() > 0.5


def test_no_graph_is_built_without_requires_grad(rng):
    result = bleugrad.expected_bleu(torch.from_numpy(rng.normal(size=(1, 4, 3))), [[0, 1]])
    assert not result.value.requires_grad
    with torch.no_grad():
        logits = torch.zeros(1, 4, 3, requires_grad=True)
        assert not bleugrad.expected_bleu(logits, [[0, 1]]).value.requires_grad
