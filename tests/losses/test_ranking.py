"""The contrastive baseline against its formula."""

import pytest
import torch

import bleugrad
from bleugrad.losses.ranking import RankingLoss

EOS = 2


def by_definition(tokens, log_probs, references, margin):
    losses = []
    for own, of_own, reference in zip(tokens, log_probs, references, strict=True):
        found = []
        for candidate, of_tokens in zip(own.tolist(), of_own, strict=True):
            if -100 in candidate[:1]:
                continue
            end = candidate.index(EOS)
            score = of_tokens[: end + 1].sum() / (end + 1)
            found.append((bleugrad.bleu([candidate[:end]], [reference]).value.item(), score))
        total = torch.zeros((), dtype=torch.float64)
        for first, of_first in found:
            for second, of_second in found:
                if first > second:
                    ranks = [sum(other > one for other, _ in found) for one in (first, second)]
                    total = total + (of_second - of_first + margin * (ranks[1] - ranks[0])).clamp(min=0)
        losses.append(total)
    return torch.stack(losses)


@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_value_and_gradient_are_those_of_the_formula(seed, margin):
    tokens = torch.randint(3, 8, (3, 5, 6))
    for index in range(15):
        row = tokens[index // 5, index % 5]
        row[1 + index % 5 :] = -100
        row[index % 5] = EOS
    tokens[0, 4] = -100  # not found
    tokens[1, 3] = tokens[1, 2]  # of equal BLEU
    references = [[3, 4, 5, 6], [5, 6, 7], [7, 3]]
    log_probs = (-torch.rand(3, 5, 6, dtype=torch.float64)).requires_grad_()
    weights = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    loss = RankingLoss(margin=margin, eos_id=EOS, reduction="none").from_samples(tokens, log_probs, references)
    expected = by_definition(tokens, log_probs, references, margin)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    found, wanted = (torch.autograd.grad((weights * one).sum(), log_probs)[0] for one in (loss, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    assert loss.max() > 0.1


def test_samples_of_rows_are_ranked(seed):
    logits = torch.randn(2, 5, 9, requires_grad=True)
    labels = torch.tensor([[3, 4, 5, 6, EOS], [7, 8, EOS, -100, -100]])
    loss = RankingLoss(samples=6, eos_id=EOS, generator=0)
    value = loss(logits, labels)
    value.backward()
    assert loss.statistics.rewards.shape == (2, 6)
    assert value > 0
    assert logits.grad.abs().max() > 0


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="samples is 1; expected 2 or more: one candidate alone has no rank"):
        RankingLoss(samples=1)
    with pytest.raises(ValueError, match="margin is -1"):
        RankingLoss(margin=-1)
