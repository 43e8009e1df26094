"""Training from random weights on the loss alone raises expected BLEU and the BLEU of greedy output."""

import pytest
import torch
from torch import nn

import bleugrad
from tests.losses.cases import IGNORE

SENTENCES, STEPS, WORDS, WIDTH = 8, 9, 20, 32


class Tagger(nn.Module):
    """Hidden states of a token at a position; the head is apart, for the fused loss."""

    def __init__(self):
        super().__init__()
        self.word, self.position = nn.Embedding(WORDS, WIDTH), nn.Embedding(STEPS, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, source):
        return torch.tanh(self.word(source) + self.position.weight[: source.shape[1]])


def draw_task(eos_id):
    """Every word has one translation; lengths 5 to 9, an EOS at the end if there is one."""
    source = torch.randint(1, WORDS, (SENTENCES, STEPS))
    dictionary = torch.cat([torch.tensor([0]), torch.randperm(WORDS - 1) + 1])
    labels = dictionary[source]
    lengths = torch.randint(5, STEPS + 1, (SENTENCES, 1))
    if eos_id is not None:
        labels[torch.arange(STEPS) == lengths - 1] = eos_id
    labels[torch.arange(STEPS) >= lengths] = IGNORE
    return source, labels


def greedy_bleu(logits, labels):
    hypotheses = logits.argmax(-1).where(labels != IGNORE, IGNORE)
    return bleugrad.bleu(hypotheses, labels, smoothing=0, level="corpus").value.item()


def train(call, source, labels, steps=200):
    """(loss, greedy BLEU) before and after."""
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def state():
        with torch.no_grad():
            return call(model, source, labels).item(), greedy_bleu(model.head(model(source)), labels)

    before = state()
    for _ in range(steps):
        optimizer.zero_grad()
        call(model, source, labels).backward()
        optimizer.step()
    return before, state()


@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("eos_id", [None, 0])
def test_two_hundred_steps(seed, method, eos_id):
    """Loss from above 0.9 to below 0.6, greedy corpus BLEU from below 0.05 to above 0.4, the rest is local optima."""
    loss = bleugrad.ExpectedBLEULoss(method=method, eos_id=eos_id)
    source, labels = draw_task(eos_id)
    before, after = train(lambda model, x, y: loss(model.head(model(x)), y), source, labels)
    assert before[0] > 0.9
    assert before[1] < 0.05
    assert after[0] < 0.6
    assert after[1] > 0.4


def test_the_fused_loss_trains_alike(seed):
    """The same seed, the same 20 steps, to rounding."""
    source, labels = draw_task(None)
    loss = bleugrad.ExpectedBLEULoss()
    torch.manual_seed(seed)
    first = train(lambda model, x, y: loss(model.head(model(x)), y), source, labels, steps=20)
    torch.manual_seed(seed)

    def fused(model, x, y):
        return loss(bleugrad.Projection(model(x), model.head.weight, model.head.bias), y)

    second = train(fused, source, labels, steps=20)
    assert first[1][0] < first[0][0] - 0.05
    assert second[0][0] == pytest.approx(first[0][0], abs=1e-6)
    assert second[1][0] == pytest.approx(first[1][0], abs=1e-4)


def test_a_mixture_with_cross_entropy_learns_all_of_it(seed):
    """Cross-entropy leads out of the local optima of BLEU alone."""
    loss = bleugrad.ExpectedBLEULoss(cross_entropy_weight=0.5)
    source, labels = draw_task(None)
    _, after = train(lambda model, x, y: loss(model.head(model(x)), y), source, labels)
    assert after[1] == pytest.approx(1)
