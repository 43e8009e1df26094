"""REINFORCE: its gradient equals the formula for the sampled sequences, and its mean the enumerated gradient."""

from functools import partial

import numpy as np
import pytest
import torch

import bleugrad
from bleugrad.losses import reinforce, sampling
from tests.cases import assert_near
from tests.losses.estimates import agrees, assert_unbiased, draw_estimates, tiny_cases
from tests.oracles.policy_gradient import score_function

CASES = tiny_cases()
BUILDS = {
    "none": partial(bleugrad.ReinforceLoss, baseline="none"),
    "greedy": partial(bleugrad.ReinforceLoss, baseline="greedy"),
    "leave-one-out": partial(bleugrad.ReinforceLoss, samples=3, baseline="leave-one-out"),
}
COPIES = 20_000


@pytest.mark.parametrize("baseline", BUILDS)
@pytest.mark.parametrize("name", CASES)
def test_the_mean_of_value_and_gradient_is_the_truth(name, baseline):
    assert_unbiased(CASES[name], BUILDS[baseline], COPIES)


def test_a_baseline_that_includes_the_sample_itself_is_caught(monkeypatch):
    """Subtracting the mean of all samples shrinks the gradient by (S - 1) / S: the same test must see it."""
    monkeypatch.setattr(reinforce, "leave_one_out", lambda values: values.mean(1, keepdim=True).expand_as(values))
    for case in CASES.values():
        _, gradients = draw_estimates(case, BUILDS["leave-one-out"], COPIES)
        assert not agrees(gradients, case.truth[1].ravel())


def test_leaving_out_the_eos_that_ends_a_sample_is_caught(monkeypatch):
    case = CASES["random length"]

    def before_eos(self, of_tokens):
        return torch.where(self.scored & (self.tokens != case.eos_id), of_tokens, 0).sum(2)

    monkeypatch.setattr(sampling.RewardedSamples, "log_probs", before_eos)
    _, gradients = draw_estimates(case, BUILDS["greedy"], COPIES)
    assert not agrees(gradients, case.truth[1].ravel())


def by_hand(case, sequences, baselines):
    """Value and gradient of one sentence for the sequences (tuples over the rows that count) that were drawn."""
    scores = [case.bleu(sequence) for sequence in sequences]
    gradient = sum(
        -(score - baseline) * score_function(case.rows, sequence, case.eos_id)
        for score, baseline, sequence in zip(scores, baselines(scores), sequences, strict=True)
    )
    return 1 - np.mean(scores), case.in_place(gradient / len(sequences)), scores


@pytest.mark.parametrize("baseline", BUILDS)
@pytest.mark.parametrize("name", CASES)
def test_value_gradient_and_statistics_of_the_samples_drawn_are_those_of_the_formula(name, baseline):
    case = CASES[name]
    loss = BUILDS[baseline](samples=4, reduction="none", generator=5, **case.options)
    logits, keywords = case.batch(6)
    values = loss(logits, **keywords)
    values.sum().backward()
    greedy = case.bleu(tuple(case.rows.argmax(1)))
    baselines = {
        "none": lambda scores: [0.0] * 4,
        "greedy": lambda scores: [greedy] * 4,
        "leave-one-out": lambda scores: [(sum(scores) - score) / 3 for score in scores],
    }[baseline]
    drawn = loss.statistics.tokens[:, :, case.positions].tolist()
    seen = []
    for b in range(6):
        value, gradient, scores = by_hand(case, [tuple(sequence) for sequence in drawn[b]], baselines)
        assert_near(values[b], value, 1e-12)
        assert_near(logits.grad[b], gradient, 1e-12)
        assert_near(loss.statistics.rewards[b], scores, 1e-12)
        assert_near(loss.statistics.baselines[b], baselines(scores), 1e-12)
        seen += [(score, base) for score, base in zip(scores, baselines(scores), strict=True)]
    seen = np.array(seen)
    assert_near(loss.statistics.mean_reward, seen[:, 0].mean(), 1e-12)
    assert_near(loss.statistics.mean_baseline, seen[:, 1].mean(), 1e-12)
    assert_near(loss.statistics.advantage_spread, np.sqrt(((seen[:, 0] - seen[:, 1]) ** 2).mean()), 1e-12)


@pytest.mark.parametrize("baseline", BUILDS)
@pytest.mark.parametrize("eos_id", [None, 2])
def test_samples_of_a_decoder_give_what_the_rows_they_were_drawn_from_give(baseline, eos_id):
    """forward() and from_samples() on the same tokens, with log-probabilities by log_softmax."""
    torch.manual_seed(1)
    logits = torch.randn(3, 5, 4, dtype=torch.float64, requires_grad=True)
    references = torch.tensor([[0, 1, 3, 0], [1, 1, 3, -100], [3, 0, 1, 1]])
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1, 3:] = False
    loss = bleugrad.ReinforceLoss(samples=3, baseline=baseline, eos_id=eos_id, generator=3)
    drawn = loss(logits, references=references, mask=mask)
    (expected,) = torch.autograd.grad(drawn, logits)
    tokens = loss.statistics.tokens
    log_probs = logits.log_softmax(-1)[:, None].expand(-1, 3, -1, -1).gather(3, tokens[..., None]).squeeze(3)
    greedy = torch.where(mask, logits.argmax(-1), -100) if baseline == "greedy" else None
    everywhere = mask[:, None].expand_as(tokens)
    given = loss.from_samples(tokens, log_probs, references, mask=everywhere, greedy=greedy)
    (found,) = torch.autograd.grad(given, logits, retain_graph=True)
    torch.testing.assert_close(given, drawn)
    torch.testing.assert_close(found, expected)
    padded = loss.from_samples(torch.where(everywhere, tokens, -100), log_probs, references, greedy=greedy)
    torch.testing.assert_close(torch.autograd.grad(padded, logits)[0], expected)


def test_one_sample_a_sentence_may_be_given_without_its_axis():
    tokens, log_probs = torch.tensor([[1, 2, 3]]), torch.tensor([[-1.0, -2.0, -3.0]], requires_grad=True)
    loss = bleugrad.ReinforceLoss(baseline="none", max_order=1)
    value = loss.from_samples(tokens, log_probs, [[1, 2, 5]])
    value.backward()
    assert value.item() == pytest.approx(1 - 3 / 4)
    assert log_probs.grad.tolist() == [[-0.75] * 3]


SAMPLES = torch.zeros(2, 3, 4, dtype=torch.long)
BAD = [
    ({}, {"tokens": SAMPLES.tolist()}, TypeError, "tokens"),
    ({}, {"tokens": SAMPLES.float()}, TypeError, "tokens"),
    ({}, {"tokens": SAMPLES[0, 0]}, ValueError, "tokens"),
    ({}, {"tokens": SAMPLES - 1}, ValueError, "tokens"),
    ({}, {"tokens": SAMPLES[:, :0], "log_probs": torch.zeros(2, 0, 4)}, ValueError, "tokens"),
    ({}, {"log_probs": torch.zeros(2, 3)}, ValueError, "log_probs"),
    ({}, {"log_probs": SAMPLES}, TypeError, "log_probs"),
    ({}, {"mask": torch.ones(2, 4, dtype=torch.bool)}, ValueError, "mask"),
    ({}, {"mask": torch.ones(2, 3, 4)}, TypeError, "mask"),
    ({}, {"references": [[1]]}, ValueError, "references"),
    ({"baseline": "greedy"}, {}, TypeError, "greedy is None; expected the decoder's greedy output"),
    ({"baseline": "greedy"}, {"greedy": torch.zeros(3, 4, dtype=torch.long)}, ValueError, "greedy"),
    (
        {"baseline": "leave-one-out", "samples": 2},
        {"tokens": SAMPLES[:, :1], "log_probs": torch.zeros(2, 1, 4)},
        ValueError,
        "samples",
    ),
]


@pytest.mark.parametrize(("options", "changes", "exception", "argument"), BAD)
def test_bad_samples_are_named(options, changes, exception, argument):
    call = {"tokens": SAMPLES, "log_probs": torch.zeros(2, 3, 4), "references": [[1], [2]]} | changes
    with pytest.raises(exception, match=rf"^{argument}\b"):
        bleugrad.ReinforceLoss(**({"baseline": "none"} | options)).from_samples(**call)


def test_bad_options_are_named():
    with pytest.raises(ValueError, match=r"^samples is 1; expected 2 or more for the leave-one-out baseline"):
        bleugrad.ReinforceLoss(samples=1, baseline="leave-one-out")
    with pytest.raises(ValueError, match=r"^baseline is 'mean'"):
        bleugrad.ReinforceLoss(baseline="mean")


@pytest.mark.parametrize("kind", [bleugrad.ReinforceLoss, bleugrad.MinimumRiskLoss, bleugrad.UnbiasedBLEULoss])
def test_logits_that_are_no_tensor_are_named(kind):
    with pytest.raises(TypeError, match="logits is a list; expected a tensor"):
        kind(samples=2)([[[0.0]]], torch.zeros(1, 1, dtype=torch.long))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, -torch.finfo(torch.float32).max])
def test_log_probabilities_of_given_samples_are_finite_where_they_count(value):
    loss, tokens = bleugrad.ReinforceLoss(baseline="none", eos_id=1), torch.tensor([[[2, 2, 1, 3]]])
    log_probs = torch.tensor([[[-1.0, -1.0, -1.0, value]]])
    assert loss.from_samples(tokens, log_probs, [[2]]).isfinite()
    with pytest.raises(ValueError, match="log_probs holds NaN or an infinity"):
        loss.from_samples(tokens, torch.tensor([[[value, value, -1.0, -1.0]]]), [[2]])
