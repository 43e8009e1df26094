"""The products of the probabilities of each word's tokens, from the products of 1, 2, 4, ... tokens.

A word of s tokens is made of runs of 2^k tokens, one for each bit k of s. Asynchronous devices (GPUs) form the runs of
all lengths up to T, so that no length is read back.
"""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.windows import delayed


def forward(keep: bool, match_probs: Tensor, *words: Tensor) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.word_probabilities`. O(T B (L + W) log) time and memory."""
    runs, product = _Runs(match_probs, *words), None
    for factor in runs.factors():
        product = factor if product is None else product * factor
    assert product is not None
    return (product.masked_fill(runs.forbidden, 0),), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the match probabilities."""
    runs = _Runs(*inputs)
    factors = runs.factors()
    before = [torch.ones_like(factors[0])]
    for factor in factors[:-1]:
        before.append(before[-1] * factor)
    grad, of_factors = grads[0].masked_fill(runs.forbidden, 0), []
    for factor, product in zip(reversed(factors), reversed(before), strict=True):
        of_factors.append(grad * product)
        grad = grad * factor
    return (runs.backward(of_factors[::-1]),)


class _Runs:
    """``levels[k]`` (T, B, L): the probability of the last 2^k tokens of the reference up to a column, ending at t.

    ``forbidden`` (T, B, W) says where a word cannot stand because it begins with a token that continues a word.
    """

    def __init__(self, match_probs: Tensor, starts: Tensor, spans: Tensor, continued: Tensor) -> None:
        steps, _, columns = match_probs.shape
        self.spans = spans.clamp(max=steps + 1)  # more tokens have probability 0 all the same
        self.last = starts + spans - 1
        position = torch.arange(1, steps + 1, device=spans.device)[:, None, None]
        self.forbidden = continued & (position != spans)
        self.levels = [match_probs]
        longest = min(steps + 1, columns)
        if spans.device.type in SYNCHRONOUS and spans.numel():
            longest = min(longest, int(spans.max()))
        for level in range(longest.bit_length() - 1):
            reach, runs = 2**level, self.levels[-1]
            longer = torch.zeros_like(runs)
            longer[reach:, :, reach:] = runs[reach:, :, reach:] * runs[:-reach, :, :-reach]
            self.levels.append(longer)

    def factors(self) -> list[Tensor]:
        """The factors of the words (T, B, W), one for each level; 1 where a word has no run of that length."""
        found = []
        for level, runs in enumerate(self.levels):
            used, column, back = self._place(level)
            picked = delayed(runs.gather(2, column.expand(len(runs), -1, -1)), back)
            found.append(torch.where(used, picked, 1))
        return found

    def backward(self, of_factors: list[Tensor]) -> Tensor:
        """The gradient of the match probabilities, from those of the factors."""
        found = of_longer = None
        for level in reversed(range(len(self.levels))):
            runs, reach = self.levels[level], 2**level
            used, column, back = self._place(level)
            of_picked = delayed(of_factors[level] * used, -back)
            found = torch.zeros_like(runs).scatter_add_(2, column.expand(len(runs), -1, -1), of_picked)
            if of_longer is not None:
                given = of_longer[reach:, :, reach:]
                found[reach:, :, reach:].addcmul_(given, runs[:-reach, :, :-reach])
                found[:-reach, :, :-reach].addcmul_(given, runs[reach:, :, reach:])
            of_longer = found
        assert found is not None
        return found

    def _place(self, level: int) -> tuple[Tensor, Tensor, Tensor]:
        """Which words have a run of 2^level tokens, its last column, and the tokens of the word after it: (B, W)."""
        back = self.spans & (2**level - 1)
        return self.spans & 2**level > 0, (self.last - back).clamp(min=0), back
