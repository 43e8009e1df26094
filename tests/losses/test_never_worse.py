"""Further training of a weak model with the recipe is not worse than the same steps of cross-entropy."""

import copy
import random

import pytest
import torch
from torch import nn

import bleugrad
from tests.losses.cases import IGNORE

EOS, FIRST, V, LONGEST = 1, 2, 24, 24


class Decoder(nn.Module):
    """The next token from the one before it and a hint."""

    def __init__(self):
        super().__init__()
        self.before, self.hint = nn.Embedding(V, 16), nn.Embedding(4, 16)
        self.layers = nn.Sequential(nn.Tanh(), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, V))

    def forward(self, before, hints):
        return self.layers(self.before(before) + self.hint(hints))

    @torch.no_grad()
    def greedy(self, hints):
        """Token ids of each sentence, before the first EOS."""
        tokens = torch.zeros(len(hints), 1, dtype=torch.long)
        for step in range(LONGEST):
            tokens = torch.cat([tokens, self(tokens[:, -1], hints[:, step]).argmax(-1, keepdim=True)], 1)
        return [row[1 : [*row, EOS].index(EOS)] for row in tokens.tolist()]


def sentences(number, seed):
    """Labels and hints: a chain of tokens that the hints make nearly certain, with ends that they do not show."""
    draw = random.Random(seed)
    labels, hints = torch.full((number, LONGEST), IGNORE), torch.randint(4, (number, LONGEST))
    for row, hint in zip(labels, hints.tolist(), strict=True):
        token = 0
        for step in range(LONGEST):
            if step == LONGEST - 1 or (step > 2 and token % 3 == 0 and draw.random() < 0.8):
                row[step] = EOS
                break
            surprise = 7 if draw.random() < 0.1 else 0
            token = FIRST + (5 * token + hint[step] + surprise) % (V - FIRST)
            row[step] = token
    return labels, hints


def train(model, data, steps, loss):
    model, generator = copy.deepcopy(model), torch.Generator().manual_seed(steps)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        chosen = torch.randint(len(data[0]), (32,), generator=generator)
        labels, hints = (part[chosen] for part in data)
        before = nn.functional.pad(labels[:, :-1].clamp(min=0), (1, 0))
        optimizer.zero_grad()
        loss(model(before, hints), labels).backward()
        optimizer.step()
    return model


def score(model, data):
    """BLEU of greedy output, 0 to 100, and its length over that of the references."""
    labels, hints = data
    references = [[[token for token in row if token not in (IGNORE, EOS)]] for row in labels.tolist()]
    found = model.greedy(hints)
    ratio = sum(map(len, found)) / sum(len(one[0]) for one in references)
    return 100 * bleugrad.bleu(found, references, smoothing=0).value.item(), ratio


def cross_entropy(logits, labels):
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


@pytest.mark.parametrize("before", [40, 160])
def test_a_weak_model_does_not_become_worse(seed, before):
    """Steps of cross-entropy, then as many of each loss. Expected BLEU alone falls far behind."""
    data, held_out = sentences(600, 1), sentences(200, 2)
    weak = train(Decoder(), data, before, cross_entropy)
    losses = {
        "cross-entropy": cross_entropy,
        "recipe": bleugrad.ExpectedBLEULoss.recommended(eos_id=EOS),
        "BLEU alone": bleugrad.ExpectedBLEULoss(eos_id=EOS, level="sentence"),
    }
    found = {name: score(train(weak, data, 60, loss), held_out) for name, loss in losses.items()}
    bleu, ratio = ({name: values[part] for name, values in found.items()} for part in (0, 1))
    assert bleu["recipe"] > bleu["cross-entropy"] - 3
    assert bleu["BLEU alone"] < bleu["cross-entropy"] - 5
    assert abs(ratio["recipe"] - 1) < abs(ratio["cross-entropy"] - 1) + 0.1
