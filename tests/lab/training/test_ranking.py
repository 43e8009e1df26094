"""The contrastive baseline against its formula."""

import pytest
import torch

import bleugrad
from bleugrad.lab.training.ranking import ranking_loss

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
    mask, several = tokens != -100, [[reference] for reference in references]
    loss = ranking_loss(tokens, log_probs, several, eos_id=EOS, mask=mask, margin=margin)
    expected = by_definition(tokens, log_probs, references, margin)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    found, wanted = (torch.autograd.grad((weights * one).sum(), log_probs)[0] for one in (loss, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    assert loss.max() > 0.1


def test_labels_are_references_without_their_eos(seed):
    tokens, labels = torch.randint(3, 8, (2, 4, 3)), torch.tensor([[3, 4, EOS], [5, EOS, -100]])
    tokens[..., -1] = EOS
    log_probs, mask = -torch.rand(2, 4, 3), torch.ones_like(tokens, dtype=torch.bool)
    found, wanted = (
        ranking_loss(tokens, log_probs, references, eos_id=EOS, mask=mask) for references in (labels, [[[3, 4]], [[5]]])
    )
    torch.testing.assert_close(found, wanted)
    assert wanted.max() > 0
