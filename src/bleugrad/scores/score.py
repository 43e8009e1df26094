"""Shared parts of the scores, and scores of a corpus that are made of sums over its sentences."""

from abc import ABC, abstractmethod
from typing import Protocol

import torch
from torch import Tensor

from bleugrad.distributed import Pool
from bleugrad.matches.parts import Weigh
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.references.sequences import References

SEVERAL = ("best", "mean")


class Score(Protocol):
    """A number made of expected statistics. A new score is a class with these two members."""

    @property
    def max_order(self) -> int:
        """The highest n-gram order it needs."""

    def value(self, statistics: ExpectedStatistics, level: str, pool: Pool | None) -> Tensor:
        """The score of each sentence, (B,), or of the whole batch: ``level`` is "sentence" or "corpus".

        At corpus level ``pool`` sums over processes; None where one process holds the batch.
        """


def check_score(score: object) -> None:
    """Raise unless ``score`` has the members of a :class:`Score`."""
    if isinstance(score, type) or not (hasattr(score, "max_order") and callable(getattr(score, "value", None))):
        raise TypeError(f"score is {score!r}; expected a score, such as bleugrad.ROUGE(2) or bleugrad.BLEU()")


class PooledScore(ABC):
    """A :class:`~bleugrad.scores.score.Score` whose corpus level follows from sums over sentences.

    ``several`` says what is made of several references. References of no tokens do not count.
    """

    max_order: int
    several: str

    @property
    def number_of_sums(self) -> int:
        """C, the number of :meth:`sums`."""
        return 2

    @abstractmethod
    def sentences(self, statistics: ExpectedStatistics) -> Tensor:
        """The score of each sentence, (B,)."""

    @abstractmethod
    def sums(self, statistics: ExpectedStatistics) -> Tensor:
        """The sums over sentences that the score of a corpus is made of, (C,)."""

    def of_sums(self, sums: Tensor) -> Tensor:
        """The score of a corpus from its sums, a scalar: their ratio."""
        return sums[0] / torch.where(sums[1] > 0, sums[1], 1)

    def value(self, statistics: ExpectedStatistics, level: str, pool: Pool | None) -> Tensor:
        """See :class:`bleugrad.scores.score.Score`."""
        if level == "sentence":
            return self.sentences(statistics)
        sums = self.sums(statistics)
        return self.of_sums(sums if pool is None else pool.sum(sums))


def reference_matches(statistics: ExpectedStatistics, weigh: Weigh | None = None, *, joint: bool) -> Tensor:
    """(B, K, N, S) or (B, K, N, 1): see ``ReferenceMatches`` in ``matches/parts.py``."""
    if statistics.parts is None:
        raise ValueError("the output has no matches with each reference; expected BLEU as the score of this output")
    return statistics.parts.matches(weigh, joint=joint)


def expected_ratio(matches: Tensor, denominators: Tensor, probs: Tensor) -> Tensor:
    """E[O / d(length)]: (..., S) matches jointly with the length, (..., S) denominators, and P(length) (B, 1.., S).

    **Exact** from joint expectations, as the sum over lengths of E[O; l] / d(l). Where matches are known for all
    lengths together alone, (..., 1), it is the **surrogate** E[O] / E[d]. Where d is 0 there are no matches, and the
    ratio is 0.
    """
    if matches.shape[-1] < denominators.shape[-1]:
        denominators = (denominators * probs).sum(-1, keepdim=True)
    return (matches / torch.where(denominators > 0, denominators, 1)).sum(-1)


def over_references(values: Tensor, references: References, several: str, quality: Tensor) -> Tensor:
    """Reduce values (B, K) to (B,): the reference of the highest ``quality``, the first of equals; or the mean."""
    if values.shape[1] == 1:
        return values.squeeze(1)
    given = references.lengths > 0
    if several == "mean":
        return (values * given).sum(1) / given.sum(1).clamp(min=1)
    return values.gather(1, best(quality, given)).squeeze(1)


def best(quality: Tensor, given: Tensor) -> Tensor:
    """The index of the given reference of the highest quality, (B, K, ...) to (B, 1, ...)."""
    return quality.detach().masked_fill(~given, -1).argmax(1, keepdim=True)
