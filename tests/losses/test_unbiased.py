"""The unbiased loss: its mean against enumeration, its formula for given samples, and its small variance."""

from functools import partial

import numpy as np
import pytest
import torch

import bleugrad
from bleugrad.losses import sampling, unbiased
from tests.cases import assert_near
from tests.losses.estimates import agrees, assert_unbiased, draw_estimates, tiny_cases
from tests.oracles.counting import brevity_penalty, combine, cut, statistics
from tests.oracles.policy_gradient import all_sequences, expectation_and_gradient, probability, score_function

CASES = tiny_cases()
BUILDS = {samples: partial(bleugrad.UnbiasedBLEULoss, samples=samples) for samples in (1, 3)}
COPIES = 10_000


@pytest.mark.parametrize("samples", BUILDS)
@pytest.mark.parametrize("name", CASES)
def test_the_mean_of_value_and_gradient_is_the_truth(name, samples):
    assert_unbiased(CASES[name], BUILDS[samples], COPIES)


@pytest.mark.parametrize("name", CASES)
def test_the_exact_term_alone_is_biased_and_caught(name, monkeypatch):
    """Without the residual the mean is that of the line, not of BLEU."""
    monkeypatch.setattr(unbiased.LinearBLEU, "of_samples", lambda self, samples, random_length: samples.rewards)
    case = CASES[name]
    _, gradients = draw_estimates(case, BUILDS[1], 50)
    assert not agrees(gradients, case.truth[1].ravel())


def test_the_line_of_another_length_is_caught(monkeypatch):
    """At the sample, but not in the expectation."""
    original = unbiased.LinearBLEU.of_samples

    def shifted(self, samples, random_length):
        lengths = (samples.lengths - 1).clamp(min=0)
        return original(self, sampling.RewardedSamples(**(vars(samples) | {"lengths": lengths})), random_length)

    monkeypatch.setattr(unbiased.LinearBLEU, "of_samples", shifted)
    case = CASES["random length"]
    _, gradients = draw_estimates(case, BUILDS[1], COPIES)
    assert not agrees(gradients, case.truth[1].ravel())


def stand_in_of(case):
    """C(x) by its definition, with e the mean matches of the sequences as long as x.

    level + sum_k (f(e + v_k) - f(e)) (E_k - mu_k), E_k = O_k - O_{k+1} the number of events of order k.
    """
    max_order, smoothing = case.options.get("max_order", 4), case.options.get("smoothing", 1.0)
    references = [cut(reference, case.eos_id) for reference in case.references]
    mass, sums = {}, {}

    def found(sequence):
        return statistics(cut(sequence, case.eos_id), references, max_order)

    for sequence in all_sequences(*case.rows.shape):
        matches, _, length, _ = found(sequence)
        share = probability(case.rows, sequence)
        mass[length] = mass.get(length, 0.0) + share
        sums[length] = sums.get(length, 0.0) + share * np.array(matches)

    def events(matches, k):
        return matches[k] - (matches[k + 1] if k + 1 < max_order else 0)

    def value(sequence):
        matches, totals, length, closest = found(sequence)
        expected = sums[length] / mass[length]
        penalty = brevity_penalty(length, closest)

        def f(of_matches):
            return combine(list(of_matches), totals, penalty, case.options.get("weights"), smoothing)

        total = f(expected)
        for k in range(max_order):
            one = np.arange(max_order) <= k
            slope = f(expected + one) - f(expected)
            total += slope * (events(matches, k) - events(expected, k))
            bend = f(expected + 2 * one) - 2 * f(expected + one) + f(expected)
            total += events(expected, k) / 2 * bend
        return total

    return value


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_of_the_samples_drawn_are_those_of_the_formula(name, samples):
    case = CASES[name]
    loss = bleugrad.UnbiasedBLEULoss(samples=samples, reduction="none", generator=9, **case.options)
    logits, keywords = case.batch(6)
    values = loss(logits, **keywords)
    values.sum().backward()
    stand_in = stand_in_of(case)
    expected, exact = expectation_and_gradient(case.rows, stand_in)
    for b, sequences in enumerate(loss.statistics.tokens[:, :, case.positions].tolist()):
        residuals = [case.bleu(tuple(sequence)) - stand_in(tuple(sequence)) for sequence in sequences]
        gradient = -exact
        for residual, sequence in zip(residuals, sequences, strict=True):
            gradient = gradient - residual * score_function(case.rows, sequence, case.eos_id) / samples
        assert_near(values[b], 1 - expected - np.mean(residuals), 1e-11)
        assert_near(logits.grad[b], case.in_place(gradient), 1e-11)
        assert_near(loss.statistics.advantages[b], residuals)


@pytest.mark.parametrize("name", [name for name in CASES if "no smoothing" not in name])
def test_the_variance_is_far_below_reinforces(name):
    case = CASES[name]
    _, ours = draw_estimates(case, BUILDS[1], 1000)
    _, theirs = draw_estimates(case, partial(bleugrad.ReinforceLoss, samples=4, baseline="leave-one-out"), 1000)
    assert ours.var(0).sum() < 4 * theirs.var(0).sum() / 10  # a sample of theirs for a sample of ours


@pytest.mark.parametrize("samples", [1, 2])
def test_where_bleu_is_linear_nothing_is_random(samples):
    """One order and a fixed length: the line is BLEU, and the loss exact."""
    torch.manual_seed(0)
    logits = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[1, 2, 3, 4, 5], [1, 1, 2, -100, -100]])
    loss = bleugrad.UnbiasedBLEULoss(samples=samples, max_order=1)(logits, labels)
    exact = bleugrad.ExpectedBLEULoss(max_order=1, level="sentence")(logits, labels)
    torch.testing.assert_close(loss, exact, rtol=0, atol=1e-14)
    torch.testing.assert_close(*(torch.autograd.grad(each, logits)[0] for each in (loss, exact)), rtol=0, atol=1e-14)
