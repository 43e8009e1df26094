"""Small cases whose expected BLEU is known by enumeration, and the statistical test of an estimator's mean."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from tests.oracles.policy_gradient import bleu_function, expectation_and_gradient, softmax

LARGEST_Z = 4.5
"""Number of standard errors within which each coordinate, and the chi-square of all, must agree with the truth."""


@dataclass(frozen=True)
class TinyCase:
    """One sentence: float64 logits (T, V), its references, positions that count, and the options of the loss."""

    logits: np.ndarray
    references: list
    counted: list | None = None
    options: dict = field(default_factory=dict)

    @property
    def eos_id(self):
        return self.options.get("eos_id")

    @property
    def positions(self):
        return list(range(len(self.logits))) if self.counted is None else self.counted

    @property
    def rows(self):
        """The rows that count."""
        return softmax(self.logits)[self.positions]

    @property
    def bleu(self):
        scoring = {key: value for key, value in self.options.items() if key != "eos_id"}
        return bleu_function(self.references, self.eos_id, **({"smoothing": 1.0} | scoring))

    def in_place(self, gradient):
        """The gradient of all rows from that of the rows that count."""
        whole = np.zeros_like(self.logits)
        whole[self.positions] = gradient
        return whole

    @cached_property
    def truth(self):
        """1 - E[BLEU] and its gradient in the logits."""
        mean, gradient = expectation_and_gradient(self.rows, self.bleu)
        return 1 - mean, -self.in_place(gradient)

    def batch(self, copies):
        """Logits (copies, T, V) with a gradient, and the keywords of the call."""
        logits = torch.from_numpy(self.logits).expand(copies, -1, -1).clone().requires_grad_()
        mask = torch.zeros(copies, len(self.logits), dtype=torch.bool)
        mask[:, self.positions] = True
        longest = max(len(reference) for reference in self.references)
        padded = [reference + [-100] * (longest - len(reference)) for reference in self.references]
        return logits, {"references": torch.tensor(padded).expand(copies, -1, -1), "mask": mask}


def tiny_cases():
    """Named cases: repeated words, several references, holes, random length, weights, no smoothing."""
    rng = np.random.default_rng(3)

    def logits(steps, vocabulary, scale=1.0):
        return scale * rng.normal(size=(steps, vocabulary))

    return {
        "distinct words": TinyCase(logits(4, 4), [[0, 1, 2, 3]]),
        "repeated words, longer reference": TinyCase(logits(4, 3), [[0, 0, 1, 0, 0]]),
        "several references, holes": TinyCase(logits(4, 3), [[0, 1, 2, 1, 0], [1, 1, 0, 2]], counted=[0, 2, 3]),
        "sure rows": TinyCase(logits(4, 3, scale=3.0), [[0, 1, 0, 1]]),
        "random length": TinyCase(logits(4, 3), [[0, 1, 0]], options={"eos_id": 2}),
        "random length, several references, holes": TinyCase(
            logits(4, 4), [[0, 0, 1, 1, 0], [0, 1, 3]], counted=[0, 1, 3], options={"eos_id": 2}
        ),
        "weights": TinyCase(logits(4, 3), [[0, 1, 2, 0]], options={"max_order": 2, "weights": [0.2, 0.8]}),
        "no smoothing": TinyCase(logits(4, 3), [[0, 1, 2, 0]], options={"max_order": 2, "smoothing": 0.0}),
        "no smoothing, random length": TinyCase(
            logits(4, 3), [[0, 2, 0]], options={"max_order": 2, "smoothing": 0.0, "eos_id": 1}
        ),
    }


def draw_estimates(case, build, copies):
    """`copies` independent values (copies,) and gradients (copies, T * V) of a loss at one case."""
    loss = build(reduction="none", generator=11, **case.options)
    logits, keywords = case.batch(copies)
    values = loss(logits, **keywords)
    values.sum().backward()
    return values.detach().numpy(), logits.grad.reshape(copies, -1).numpy()


def deviation(estimates, truth):
    """How far the mean of independent estimates (S, D) is from the truth (D,), as normal scores.

    Returns the largest |z| of a coordinate, the normal score of the chi-square of all directions that vary (Wilson and
    Hilferty), and the largest error along those that do not.
    """
    number = len(estimates)
    error = estimates.mean(0) - truth
    covariance = np.cov(estimates.T).reshape(len(error), len(error)) / number
    spread = np.sqrt(np.diag(covariance))
    scale = max(spread.max(), 1e-12)
    varies = spread > 1e-6 * scale
    largest = np.abs(error[varies] / spread[varies]).max(initial=0.0)
    variances, directions = np.linalg.eigh(covariance)
    free = variances > 1e-9 * scale**2
    components = directions.T @ error
    rank = int(free.sum())
    score = 0.0
    if rank:
        chi_square = (components[free] ** 2 / variances[free]).sum()
        score = ((chi_square / rank) ** (1 / 3) - (1 - 2 / (9 * rank))) / np.sqrt(2 / (9 * rank))
    return largest, score, np.abs(components[~free]).max(initial=0.0)


def agrees(estimates, truth):
    """Whether the mean of the estimates is the truth within `LARGEST_Z` standard errors, in every sense."""
    largest, score, fixed = deviation(estimates, truth)
    return largest < LARGEST_Z and score < LARGEST_Z and fixed < 1e-4 * max(np.abs(truth).max(), 1e-3)


def assert_unbiased(case, build, copies):
    """Value and gradient of the loss have those of 1 - E[BLEU] as their means."""
    values, gradients = draw_estimates(case, build, copies)
    value, gradient = case.truth
    assert agrees(values[:, None], np.array([value])), deviation(values[:, None], np.array([value]))
    assert agrees(gradients, gradient.ravel()), deviation(gradients, gradient.ravel())
