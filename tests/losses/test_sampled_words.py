"""Sampled losses in words, by enumeration of every sample; with cross-entropy, and compiled."""

from itertools import product

import numpy as np
import pytest
import torch

import bleugrad
from tests.cases import assert_near
from tests.losses.cases import IGNORE, assert_all_close, draw_batch, gradients
from tests.losses.estimates import softmax
from tests.oracles.words import enumerate_words

LOSSES = {
    "reinforce": (bleugrad.ReinforceLoss, {"samples": 2, "baseline": "leave-one-out"}),
    "self-critical": (bleugrad.ReinforceLoss, {}),
    "minimum risk": (bleugrad.MinimumRiskLoss, {"include_reference": True}),
    "unbiased": (bleugrad.UnbiasedBLEULoss, {"samples": 2}),
}
STARTS = (True, False, True)
# references of one sentence over three tokens, of which the second continues a word; EOS
CASES = {
    "one reference": ([[0, 1, 2]], None),
    "repeated words": ([[0, 1, 0, 1, 2]], None),
    "several references": ([[0, 1, 1], [2, 0]], None),
    "random length": ([[0, 1]], 2),
    "random length, several references": ([[0, 1, 0], [0]], 2),
    "begins with a continuation": ([[1, 0, 1]], None),
}


class EverySample:
    """A case whose batch is one sentence per possible sample, or one sentence with all of them."""

    def __init__(self, name, steps=3):
        self.references, self.eos_id = CASES[name]
        self.logits = 1.5 * np.random.default_rng(5).normal(size=(steps, len(STARTS)))
        self.rows = softmax(self.logits)
        self.sequences = np.array(list(product(range(len(STARTS)), repeat=steps)))
        self.probs = self.rows[np.arange(steps), self.sequences].prod(1)
        above = self.rows.cumsum(1)
        middle = above - self.rows / 2
        self.uniform = torch.from_numpy(middle[np.arange(steps), self.sequences])  # (S, T), draws the sequences

    def truth(self):
        """1 - E[BLEU of words], and its gradient p[t, v] (E[BLEU] - E[BLEU | x_t = v])."""
        mean = self.mean(self.rows)
        gradient = np.zeros_like(self.rows)
        for t, v in np.ndindex(self.rows.shape):
            sure = self.rows.copy()
            sure[t] = np.eye(len(STARTS))[v]
            gradient[t, v] = self.rows[t, v] * (mean - self.mean(sure))
        return 1 - mean, gradient

    def mean(self, rows):
        table = enumerate_words(rows, self.references, STARTS, 4, self.eos_id)
        return table.mean(table.bleu(smoothing=1.0))

    def run(self, criterion, uniform):
        """Values (B,), and the gradient of each sentence, where the random numbers (B, T, S) are given."""
        batch = uniform.shape[0]
        criterion.uniform = lambda *_: uniform
        logits = torch.from_numpy(self.logits).expand(batch, -1, -1).clone().requires_grad_()
        longest = max(map(len, self.references))
        padded = [row + [IGNORE] * (longest - len(row)) for row in self.references]
        values = criterion(logits, references=torch.tensor(padded).expand(batch, -1, -1))
        values.sum().backward()
        return values.detach(), logits.grad

    def options(self):
        return {"eos_id": self.eos_id, "word_start": torch.tensor(STARTS), "reduction": "none"}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "build",
    [
        bleugrad.UnbiasedBLEULoss,
        lambda **options: bleugrad.ReinforceLoss(baseline="none", **options),
        lambda **options: bleugrad.ReinforceLoss(baseline="greedy", **options),
    ],
    ids=["unbiased", "reinforce", "self-critical"],
)
def test_the_mean_over_all_samples_is_the_truth(build, name):
    case = EverySample(name)
    criterion = build(**case.options())
    values, grads = case.run(criterion, case.uniform[..., None])
    assert criterion.statistics.tokens[:, 0].tolist() == case.sequences.tolist()
    weights = torch.from_numpy(case.probs)
    loss, gradient = case.truth()
    assert_near((weights * values).sum(), loss, 1e-12)
    assert_near((weights[:, None, None] * grads).sum(0), gradient, 1e-12)


@pytest.mark.parametrize("name", CASES)
def test_minimum_risk_over_all_sequences_is_the_truth(name):
    case = EverySample(name)
    criterion = bleugrad.MinimumRiskLoss(samples=len(case.sequences), alpha=1.0, **case.options())
    values, grads = case.run(criterion, case.uniform.t()[None].contiguous())
    loss, gradient = case.truth()
    assert_near(values, [loss], 1e-12)
    assert_near(grads[0], gradient, 1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("words", [False, True], ids=["tokens", "words"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_is_added(seed, name, words, reduction):
    logits, labels = draw_batch()
    build, options = LOSSES[name]
    options = options | {"reduction": reduction, "word_start": torch.arange(9) % 2 == 0 if words else None}
    without, found = (
        gradients(lambda x, w=weight: build(generator=3, cross_entropy_weight=w, **options)(x, labels), logits)
        for weight in (0.0, 0.7)
    )

    def cross_entropy(x):
        nll = torch.nn.functional.cross_entropy(x.transpose(1, 2), labels, reduction="none")
        if reduction == "mean":
            return nll.sum() / (labels != IGNORE).sum()
        per_sentence = nll.sum(1) / (labels != IGNORE).sum(1)
        return per_sentence if reduction == "none" else per_sentence.sum()

    added = gradients(lambda x: 0.7 * cross_entropy(x), logits)
    assert_all_close(found, [one + other for one, other in zip(without, added, strict=True)], 1e-13)


def test_cross_entropy_needs_labels():
    for build, options in LOSSES.values():
        with pytest.raises(TypeError, match=r"labels is None; expected .*above 0|include_reference"):
            build(cross_entropy_weight=1.0, **options)(torch.zeros(1, 2, 3), references=[[1]])
    with pytest.raises(ValueError, match="cross_entropy_weight is above 0, but samples come without logits"):
        bleugrad.ReinforceLoss(cross_entropy_weight=1.0).from_samples(
            torch.zeros(1, 2).long(), torch.zeros(1, 2), [[1]]
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("words", [False, True], ids=["tokens", "words"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_the_graph_has_no_breaks(seed, name, words):
    """torch's default generator gives both the same random numbers."""
    torch.compiler.reset()
    build, options = LOSSES[name]
    starts = torch.arange(9) % 2 == 0 if words else None
    loss = build(eos_id=0, word_start=starts, cross_entropy_weight=0.3, **options)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    logits, labels = draw_batch()
    results = []
    for call in (compiled, loss):
        torch.manual_seed(7)
        results.append(gradients(lambda x, call=call: call(x, labels), logits))
    assert_all_close(*results, 1e-12)
    assert results[0][1].abs().max() > 1e-4
    torch.compiler.reset()
