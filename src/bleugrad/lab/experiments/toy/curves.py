"""Gradient ascent on free logits, with measurements of every surrogate and of the truth, and their correlations."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import bleugrad
from bleugrad.lab.experiments.toy.config import ToyConfig

ADAM_EPSILON = 1e-12  # unsmoothed BLEU-4 starts with gradients near 1e-11, which Adam's usual 1e-8 would drown


@dataclass(frozen=True)
class Measurement:
    """Measurements of BLEU-N at one step."""

    step: int  # updates made so far
    argmax_bleu: float  # BLEU of the row-wise argmax
    bound: float  # BLEU of the paper's matches LB_n: for N = 1 the paper's bound, for N > 1 its composite bound + 1
    paper_bound: float  # the composite as the paper states it, bound - 1 for N > 1
    exact: float  # BLEU of the exact expected matches
    lower: float  # certified lower bound of E[BLEU]
    upper: float  # certified upper bound of E[BLEU]
    sampled: float  # mean BLEU of sampled hypotheses
    standard_error: float  # of that mean


def learning_curve(config: ToyConfig, order: int, seed: int) -> Iterator[Measurement]:
    """Measurements of one ascent, at step 0, every few steps, and at the end."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(config.length, config.vocabulary, generator=generator).requires_grad_()
    reference = torch.randint(config.vocabulary, (config.length,), generator=generator)
    optimizer = _optimizer(config, logits)
    for step in range(config.steps + 1):
        if step % config.every == 0 or step == config.steps:
            yield measure(config, order, step, logits.detach(), reference, generator)
        if step < config.steps:
            optimizer.zero_grad()
            _expectation(config, order, logits, reference, config.method).value.backward()
            optimizer.step()


def measure(
    config: ToyConfig, order: int, step: int, logits: Tensor, reference: Tensor, generator: torch.Generator
) -> Measurement:
    """Every curve of the figure at logits (T, V) and a reference (R,), in float64."""
    logits = logits.double()
    bound, exact = (_expectation(config, order, logits, reference, method) for method in ("bound", "exact"))
    drawn = torch.multinomial(logits.softmax(1), config.samples, replacement=True, generator=generator).t()
    sampled = _bleu(config, order, drawn, reference)
    assert exact.lower is not None
    assert exact.upper is not None
    return Measurement(
        step=step,
        argmax_bleu=_bleu(config, order, logits.argmax(1)[None], reference).item(),
        bound=bound.value.item(),
        paper_bound=bound.value.item() - (order > 1),
        exact=exact.value.item(),
        lower=exact.lower.item(),
        upper=exact.upper.item(),
        sampled=sampled.mean().item(),
        standard_error=sampled.std().item() / math.sqrt(config.samples),
    )


def _expectation(
    config: ToyConfig, order: int, logits: Tensor, reference: Tensor, method: str
) -> bleugrad.ExpectedBLEUResult:
    smoothing = config.smoothing
    return bleugrad.expected_bleu(logits[None], reference[None], method=method, max_order=order, smoothing=smoothing)


def _bleu(config: ToyConfig, order: int, hypotheses: Tensor, reference: Tensor) -> Tensor:
    references = reference.expand(len(hypotheses), -1)
    return bleugrad.bleu(hypotheses, references, max_order=order, smoothing=config.smoothing, level="sentence").value


def _optimizer(config: ToyConfig, logits: Tensor) -> torch.optim.Optimizer:
    if config.optimizer == "adam":
        return torch.optim.Adam([logits], lr=config.learning_rate, eps=ADAM_EPSILON, maximize=True)
    return torch.optim.SGD([logits], lr=config.learning_rate, maximize=True)


def pearson(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Linear correlation, -1..1; None if one of the two is constant."""
    x, y = (np.asarray(values, dtype=float) - np.mean(values) for values in (left, right))
    scale = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / scale if scale > 0 else None
