"""Distributions of the hypothesis length, fixed or random, in tokens or words."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.backends import operations


@dataclass(frozen=True)
class Lengths:
    """The possible lengths of each hypothesis, ``support`` (B, S) long, with their probabilities ``probs`` (B, S).

    A ``fixed`` length is S = 1 with probability 1; a random one has the support 0..T.
    """

    support: Tensor
    probs: Tensor
    fixed: bool = False

    def mean(self) -> Tensor:
        """E[length], (B,)."""
        return (self.support * self.probs).sum(1)

    def mean_totals(self, max_order: int) -> Tensor:
        """E[M_n], (B, N)."""
        if self.fixed:
            return self.ngram_totals(max_order).squeeze(2)
        possible, orders = (torch.arange(size, device=self.probs.device) for size in (self.probs.shape[1], max_order))
        table = possible[:, None] - orders
        return (self.probs[..., None] * table.clamp_(min=0)).sum(1)  # a product of matrices would heed autocast

    def ngram_totals(self, max_order: int) -> Tensor:
        """M_n = max(length - n + 1, 0) for every possible length: (B, N, S)."""
        orders = torch.arange(max_order, device=self.support.device)
        return (self.support[:, None, :] - orders[None, :, None]).clamp(min=0).to(self.probs.dtype)


@dataclass(frozen=True)
class Stopping:
    """How sequences end before their first EOS, or at their limit.

    ``alive`` (T, B) is the probability that token t is not EOS, ``survival`` (T, B) that none of the tokens 0..t is,
    and ``stop`` (B, T + 1) that a hypothesis which has reached length l ends there.

    ``P(length = l) = P(length >= l) * p[l, EOS]`` for l below the limit, with
    ``P(length >= l) = prod_{s < l} (1 - p[s, EOS])``; what is left falls on the limit. Exact.
    """

    alive: Tensor
    survival: Tensor
    stop: Tensor


def fixed_lengths(lengths: Tensor, dtype: torch.dtype) -> Lengths:
    """Known lengths (B,)."""
    return Lengths(lengths[:, None], torch.ones_like(lengths[:, None], dtype=dtype), fixed=True)


def word_counts(opening: Tensor, limits: Tensor, ending: Stopping | None = None) -> Lengths:
    """Lengths in words of hypotheses with ``limits`` (B,) tokens, token t opening a word with probability (T, B).

    Exact. For a fixed length it is 1 + a sum of independent indicators. With ``ending`` the length in tokens is random,
    and f_t[w], the probability of reaching token t with w words, follows token by token. At most O(T^2) time per
    sentence.
    """
    stops = (None, None) if ending is None else (ending.alive, ending.stop)
    probs = operations.word_counts(opening, limits, *stops)
    batch, sizes = probs.shape
    return Lengths(all_lengths(batch, sizes, limits.device), probs)


def all_lengths(batch: int, sizes: int, device: torch.device) -> Tensor:
    """The support 0..sizes - 1 of each sentence: (B, sizes)."""
    return torch.arange(sizes, device=device).expand(batch, sizes)
