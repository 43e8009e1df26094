"""Significance of differences: a paired t-test over seeds, and a bootstrap of the test set.

The t-test asks whether other seeds would show the difference on this test set, the bootstrap whether another test set
would show it with these models.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Statistics = NDArray[np.int64]
"""(S, 2 N + 2): matches and totals of each order, length of the translation and of the reference, by sentence."""

LEVEL = 0.05


@dataclass(frozen=True)
class PairedT:
    """A paired t-test over seeds: the mean difference, the two-sided p, and the smallest significant difference.

    With fewer than two seeds, the last two are None.
    """

    difference: float
    p: float | None
    smallest: float | None


def paired_t(one: Sequence[float], other: Sequence[float]) -> PairedT:
    """Whether ``one`` differs from ``other``, seed by seed."""
    differences = [a - b for a, b in zip(one, other, strict=True)]
    number = len(differences)
    mean = sum(differences) / number
    if number < 2:
        return PairedT(mean, None, None)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in differences) / (number - 1))
    error = deviation / math.sqrt(number)
    if deviation <= 1e-12 * max(map(abs, (*one, *other, 1e-300))):  # equal differences, except for rounding
        return PairedT(mean, 1.0 if abs(mean) <= 1e-12 else 0.0, 0.0)
    return PairedT(mean, student_p(mean / error, number - 1), student_critical(number - 1) * error)


def student_p(t: float, freedom: int) -> float:
    """Two-sided p of a t value, by the finite series for whole degrees of freedom.

    Example:
        >>> round(student_p(12.706, 1), 4), round(student_p(4.303, 2), 4), round(student_p(2.365, 7), 4)
        (0.05, 0.05, 0.05)
    """
    if freedom < 1:
        raise ValueError(f"freedom is {freedom}; expected at least 1")
    angle = math.atan2(abs(t), math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    term, total = 1.0, 0.0
    for index in range(2 if freedom % 2 else 1, freedom, 2):
        total += term
        term *= cosine**2 * index / (index + 1)
    inside = 2 / math.pi * (angle + sine * cosine * total) if freedom % 2 else sine * total
    return min(max(1 - inside, 0.0), 1.0)


def student_critical(freedom: int, level: float = LEVEL) -> float:
    """The t whose two-sided probability is ``level``, by bisection."""
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > level else (low, middle)
    return high


def sentence_statistics(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], tokenize: str = "none"
) -> Statistics:
    """The statistics of BLEU per sentence, by sacreBLEU."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize=tokenize, effective_order=True, force=True)
    rows = []
    for hypothesis, of_sentence in zip(hypotheses, references, strict=True):
        score = metric.sentence_score(hypothesis, list(of_sentence))
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return np.array(rows, dtype=np.int64)


def corpus_bleu(sums: Sequence[int] | NDArray[Any]) -> float:
    """BLEU in 0..1 of summed statistics, by sacreBLEU."""
    from sacrebleu.metrics.bleu import BLEU

    *ngrams, length, reference_length = (int(value) for value in sums)
    orders = len(ngrams) // 2
    score = BLEU.compute_bleu(
        ngrams[:orders], ngrams[orders:], length, reference_length, smooth_method="exp", max_ngram_order=orders
    )
    return score.score / 100


class Bootstrap:
    """Resampled test sets, the same for every system, so that differences are paired."""

    def __init__(self, sentences: int, resamples: int, seed: int = 12345) -> None:
        generator = np.random.default_rng(seed)
        self.weights = generator.multinomial(sentences, [1 / sentences] * sentences, size=resamples)

    def scores(self, systems: Sequence[Statistics]) -> NDArray[np.float64]:
        """The BLEU of a system, mean over its runs, on every resampled test set."""
        runs = [[corpus_bleu(sums) for sums in self.weights @ statistics] for statistics in systems]
        found: NDArray[np.float64] = np.array(runs).mean(axis=0)
        return found


def interval(scores: NDArray[np.float64], level: float = LEVEL) -> tuple[float, float]:
    """The central interval of resampled scores, without a share of ``level``."""
    low, high = np.quantile(scores, [level / 2, 1 - level / 2])
    return float(low), float(high)


def bootstrap_p(observed: float, one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Two-sided p of the observed difference, by resampled differences shifted to a mean of 0; 1 for equal systems."""
    differences = one - other
    if observed == 0 and not differences.any():
        return 1.0
    moved = np.abs(differences - differences.mean())
    return float((np.sum(moved >= abs(observed)) + 1) / (len(moved) + 1))
