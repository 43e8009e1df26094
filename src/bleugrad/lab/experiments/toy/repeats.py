"""References with repeated words, small enough to enumerate every token sequence."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

import bleugrad
from bleugrad.lab.experiments.toy.config import RepeatsConfig

MOST_PULL = 5.0  # logits of the reference's words rise by up to this: from an untrained to a nearly certain model


@dataclass(frozen=True)
class Case:
    """One random case."""

    repeated: bool  # whether the reference repeats a word
    true_matches: list[float]  # E[O_n] by enumeration, one for each order
    bound_matches: list[float]  # the paper's LB_n
    exact_matches: list[float]  # by the recursion
    true_bleu: float  # E[BLEU-N] by enumeration
    bound_bleu: float  # BLEU of the bounds
    exact_bleu: float  # BLEU of the exact expectations
    lower: float  # certified lower bound of E[BLEU-N]
    upper: float  # certified upper bound


@dataclass(frozen=True)
class ExamplePoint:
    """The smallest example: reference ``a a``, three positions that are ``a`` with probability ``p`` each."""

    p: float
    true_matches: float
    bound_matches: float
    exact_matches: float


def random_cases(config: RepeatsConfig, seed: int) -> Iterator[Case]:
    """Cases with distinct words and cases with repeated ones, in turn."""
    generator = torch.Generator().manual_seed(seed)
    sequences = all_sequences(config.vocabulary, config.length)
    for _ in range(config.cases):
        for repeated in (False, True):
            reference = draw_reference(config, repeated, generator)
            logits = _draw_logits(config, reference, generator)
            yield evaluate_case(logits, reference, sequences, config.max_order, config.smoothing)


def evaluate_case(logits: Tensor, reference: Tensor, sequences: Tensor, max_order: int, smoothing: float) -> Case:
    """Both surrogates and the truth for logits (T, V), a reference (R,) and all sequences (V ** T, T)."""
    references = reference.expand(len(sequences), -1)
    scores = bleugrad.bleu(sequences, references, max_order=max_order, smoothing=smoothing, level="sentence")
    probs = sequence_probabilities(logits, sequences)
    bound, exact = (
        bleugrad.expected_bleu(logits[None], reference[None], method=method, max_order=max_order, smoothing=smoothing)
        for method in ("bound", "exact")
    )
    assert exact.lower is not None
    assert exact.upper is not None
    return Case(
        repeated=len(reference.unique()) < len(reference),
        true_matches=(probs @ scores.matches.double()).tolist(),
        bound_matches=bound.matches[0].tolist(),
        exact_matches=exact.matches[0].tolist(),
        true_bleu=(probs @ scores.value).item(),
        bound_bleu=bound.value.item(),
        exact_bleu=exact.value.item(),
        lower=exact.lower.item(),
        upper=exact.upper.item(),
    )


def smallest_example(points: int = 51) -> Iterator[ExamplePoint]:
    """Truth and bound of the smallest example, from p = 0 to p = 1."""
    reference, sequences = torch.tensor([0, 0]), all_sequences(2, 3)
    for p in torch.linspace(0, 1, points, dtype=torch.float64):
        logits = torch.stack([p, 1 - p]).log().expand(3, 2)
        case = evaluate_case(logits, reference, sequences, max_order=1, smoothing=0.0)
        yield ExamplePoint(p.item(), case.true_matches[0], case.bound_matches[0], case.exact_matches[0])


def all_sequences(vocabulary: int, length: int) -> Tensor:
    """Every sequence of ids, (V ** T, T)."""
    return torch.cartesian_prod(*[torch.arange(vocabulary)] * length).view(-1, length)


def sequence_probabilities(logits: Tensor, sequences: Tensor) -> Tensor:
    """The probability of each sequence under softmax(logits), rows independent."""
    return logits.softmax(1).gather(1, sequences.t()).prod(0)


def draw_reference(config: RepeatsConfig, repeated: bool, generator: torch.Generator) -> Tensor:
    """Distinct words, or words with replacement of which at least one repeats."""
    if not repeated:
        return torch.randperm(config.vocabulary, generator=generator)[: config.length]
    while True:
        reference = torch.randint(config.vocabulary, (config.length,), generator=generator)
        if len(reference.unique()) < config.length:
            return reference


def _draw_logits(config: RepeatsConfig, reference: Tensor, generator: torch.Generator) -> Tensor:
    """N(0, 1), plus a pull of random strength towards the reference's word at each position."""
    logits = torch.randn(config.length, config.vocabulary, generator=generator, dtype=torch.float64)
    pull = MOST_PULL * torch.rand((), generator=generator, dtype=torch.float64)
    return logits + pull * torch.nn.functional.one_hot(reference, config.vocabulary)
