"""Minimum risk is exact if the candidates are all sequences, and follows its formula for sampled candidates."""

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import assert_near
from tests.losses.estimates import tiny_cases
from tests.oracles.policy_gradient import all_sequences, score_function

CASES = tiny_cases()


@pytest.mark.parametrize("name", CASES)
def test_all_sequences_as_candidates_give_the_exact_value_and_gradient(name):
    """With EOS many of them are cut to the same sequence, which must count once."""
    case = CASES[name]
    logits = torch.from_numpy(case.logits).requires_grad_()
    counted = logits[case.positions]
    steps, vocabulary = counted.shape
    tokens = torch.tensor(all_sequences(steps, vocabulary))
    log_probs = counted.log_softmax(-1).expand(len(tokens), -1, -1).gather(2, tokens[..., None]).squeeze(2)
    loss = bleugrad.MinimumRiskLoss(alpha=1.0, **case.options)
    value = loss.from_samples(tokens[None], log_probs[None], [case.references])
    value.backward()
    assert_near(value, case.truth[0], 1e-12)
    assert_near(logits.grad, case.truth[1], 1e-12)


def by_hand(case, sequences, alpha):
    """Value and gradient for candidates (tuples over the rows that count), those cut to the same taken once."""
    chosen = {}
    for sequence in sequences:
        end = sequence.index(case.eos_id) + 1 if case.eos_id in sequence else len(sequence)
        chosen.setdefault(sequence[:end], sequence)
    scores = np.array([case.bleu(sequence) for sequence in chosen])
    logs = np.array([sum(np.log(case.rows[t, v]) for t, v in enumerate(sequence)) for sequence in chosen])
    shares = np.exp(alpha * logs) / np.exp(alpha * logs).sum()
    mean = shares @ scores
    gradient = -sum(
        share * (score - mean) * score_function(case.rows, sequence, case.eos_id)
        for share, score, sequence in zip(shares, scores, chosen, strict=True)
    )
    return 1 - mean, case.in_place(gradient)


@pytest.mark.parametrize("alpha", [0.005, 0.7])
@pytest.mark.parametrize("include_reference", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_of_the_candidates_drawn_are_those_of_the_formula(name, include_reference, alpha):
    case = CASES[name]
    loss = bleugrad.MinimumRiskLoss(
        samples=6,
        alpha=alpha,
        include_reference=include_reference,
        reduction="none",
        generator=2,
        **case.options,
    )
    logits, keywords = case.batch(5)
    labels = torch.randint(0, logits.shape[2], (5, logits.shape[1]), generator=torch.Generator().manual_seed(0))
    values = loss(logits, labels, **keywords)
    values.sum().backward()
    drawn = loss.statistics.tokens
    assert drawn.shape[1] == 6
    if include_reference:
        drawn = torch.cat([drawn, labels[:, None]], 1)
    for b, sequences in enumerate(drawn[:, :, case.positions].tolist()):
        value, gradient = by_hand(case, [tuple(sequence) for sequence in sequences], alpha)
        assert_near(values[b], value, 1e-12)
        assert_near(logits.grad[b], gradient, 1e-11)
        assert_near(loss.statistics.baselines[b], [1 - value] * 6, 1e-12)


def test_a_sentence_without_a_label_at_each_position_goes_without_the_reference():
    torch.manual_seed(0)
    logits = torch.randn(2, 4, 5, dtype=torch.float64)
    labels = torch.tensor([[1, 2, 3, 4], [1, 2, -100, 4]])
    mask = torch.ones(2, 4, dtype=torch.bool)
    options = {"samples": 4, "generator": 1, "reduction": "none"}
    references = {"references": [[1, 2, 3], [1, 2]], "mask": mask}
    without = bleugrad.MinimumRiskLoss(**options)(logits, labels, **references)
    including = bleugrad.MinimumRiskLoss(include_reference=True, **options)(logits, labels, **references)
    assert including[0] < without[0]
    assert including[1] == without[1]


def test_the_labels_are_a_candidate_up_to_their_eos():
    """What stands after it, padding or not, does not matter."""
    torch.manual_seed(0)
    logits = torch.randn(2, 4, 5, dtype=torch.float64).expand(2, -1, -1)[:1].expand(2, -1, -1)
    mask = torch.ones(2, 4, dtype=torch.bool)
    loss = bleugrad.MinimumRiskLoss(
        samples=2, alpha=1.0, include_reference=True, eos_id=0, reduction="none", generator=1
    )
    values = loss(logits, torch.tensor([[1, 2, 0, -100], [1, 2, 0, 3]]), mask=mask)
    again = bleugrad.MinimumRiskLoss(
        samples=2, alpha=1.0, include_reference=True, eos_id=0, reduction="none", generator=1
    )
    padded = again(logits, torch.tensor([[1, 2, 0, 3], [1, 2, 0, -100]]), mask=mask)
    torch.testing.assert_close(values, padded, rtol=0, atol=0)


BAD = [
    ({"alpha": 0.0}, ValueError, "alpha is 0"),
    ({"alpha": -1.0}, ValueError, "alpha is -1"),
    ({"alpha": float("nan")}, ValueError, "alpha"),
    ({"alpha": "sharp"}, TypeError, "alpha"),
    ({"samples": 1}, ValueError, "samples is 1; expected 2 or more"),
    ({"samples": 2**62}, ValueError, r"samples is 4611686018427387904; expected .* below 2\*\*31"),
    ({"generator": 2**64}, ValueError, "generator is an int of 65 bits"),
    ({"samples": 0, "include_reference": True}, ValueError, "samples is 0"),
]


@pytest.mark.parametrize(("options", "exception", "found"), BAD)
def test_bad_options_are_named(options, exception, found):
    with pytest.raises(exception, match=rf"^{found}"):
        bleugrad.MinimumRiskLoss(**options)


def test_the_reference_with_one_sample_is_enough():
    assert bleugrad.MinimumRiskLoss(samples=1, include_reference=True).samples == 1


def test_bad_candidates_are_named():
    loss = bleugrad.MinimumRiskLoss()
    candidates, log_probs = torch.zeros(2, 3, 4, dtype=torch.long), torch.zeros(2, 3, 4)
    with pytest.raises(ValueError, match=r"^references has 3 sentences; expected 2, the batch size of tokens"):
        loss.from_samples(candidates, log_probs, [[1], [2], [3]])
    with pytest.raises(ValueError, match=r"^log_probs"):
        loss.from_samples(candidates, log_probs[:1], [[1], [2]])
    with pytest.raises(ValueError, match=r"^samples is 1"):
        loss.from_samples(candidates[:, :1], log_probs[:, :1], [[1], [2]])
    with pytest.raises(TypeError, match=r"^labels is None"):
        bleugrad.MinimumRiskLoss(include_reference=True)(torch.zeros(1, 2, 3), references=[[1]])
