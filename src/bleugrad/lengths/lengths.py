"""Distributions of the hypothesis length, fixed or random, in tokens or words."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.backends import operations
from bleugrad.backends.torch.scans import running_product


@dataclass(frozen=True)
class Lengths:
    """The possible lengths 0..S - 1 of each hypothesis, with their probabilities ``probs`` (B, S)."""

    probs: Tensor

    @property
    def support(self) -> Tensor:
        """The possible lengths, (B, S)."""
        batch, sizes = self.probs.shape
        return torch.arange(sizes, device=self.probs.device).expand(batch, sizes)

    def mean(self) -> Tensor:
        """E[length], (B,)."""
        return (self.support * self.probs).sum(1)


@dataclass(frozen=True)
class FixedLengths(Lengths):
    """One length of each hypothesis, ``known`` (B, 1), with probability 1."""

    known: Tensor

    @property
    def support(self) -> Tensor:
        """The lengths, (B, 1)."""
        return self.known


@dataclass(frozen=True)
class Stopping:
    """How sequences end before their first EOS, or at their limit.

    ``P(length = l) = P(length >= l) * p[l, EOS]`` for l below the limit, with
    ``P(length >= l) = prod_{s < l} (1 - p[s, EOS])``; what is left falls on the limit. Exact.
    """

    alive: Tensor  #: (T, B), the probability that token t is not EOS.
    stop: Tensor  #: (B, T + 1), the probability that a hypothesis which has reached length l ends there.

    @property
    def survival(self) -> Tensor:
        """(T, B), the probability that none of the tokens 0..t is EOS."""
        return running_product(self.alive.t()).t()

    def lengths(self) -> Lengths:
        """The distribution of the length in tokens."""
        return Lengths(torch.nn.functional.pad(self.survival.t(), (1, 0), value=1.0) * self.stop)


def word_counts(opening: Tensor, limits: Tensor, ending: Stopping | None = None) -> Lengths:
    """Lengths in words of hypotheses with ``limits`` (B,) tokens, token t opening a word with probability (T, B).

    Exact. For a fixed length it is 1 + a sum of independent indicators. With ``ending`` the length in tokens is random,
    and the probability of reaching token t with w words follows token by token. At most O(T^2) time per sentence.
    """
    stops = (None, None) if ending is None else (ending.alive, ending.stop)
    return Lengths(operations.word_counts(opening, limits, *stops))
