"""Weights of n-grams, looked up on the device of the tokens."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from bleugrad.backends.dtypes import widest_float


class NGramWeights:
    """A trie of n-grams as a sorted table: (node, token) leads to the next node, and each node has a weight.

    Nothing is hashed, so no two n-grams are ever confused. A call looks up all n-grams of a batch in O(U N log P) steps
    for U units and P n-grams.
    """

    def __init__(self, weights: Mapping[tuple[int, ...], float], max_order: int) -> None:
        if not isinstance(weights, Mapping):
            found = type(weights).__name__
            raise TypeError(f"weights is a {found}; expected a mapping of n-grams, tuples of token ids, to numbers")
        self.max_order, self.size = max_order, len(weights)
        nodes: dict[tuple[int, ...], int] = {(): 0}
        for gram, weight in weights.items():
            if not (isinstance(gram, tuple) and gram and all(isinstance(one, int) and one >= 0 for one in gram)):
                raise TypeError(f"weights holds the n-gram {gram!r}; expected a tuple of token ids of at least 0")
            if not isinstance(weight, int | float) or not math.isfinite(weight) or weight < 0:
                raise ValueError(f"weights has {weight!r} for {gram}; expected a finite number of at least 0")
            for end in range(1, len(gram) + 1):
                nodes.setdefault(gram[:end], len(nodes))
        self.tokens = 1 + max((gram[-1] for gram in nodes if gram), default=0)
        keys = torch.tensor([nodes[gram[:-1]] * self.tokens + gram[-1] for gram in nodes if gram], dtype=torch.long)
        self.keys, order = keys.sort()
        self.next = order + 1  # nodes are numbered in the order of the keys, the root is 0
        values = [weights.get(gram, 0.0) for gram in nodes]
        self.values = torch.tensor([*values, 0.0], dtype=torch.float64)  # the last is where no n-gram leads to

    def __repr__(self) -> str:
        return f"<{self.size} n-grams>"

    def __call__(self, ids: Tensor, starts: Tensor, spans: Tensor) -> Tensor:
        """The weights (B, U, N) of the n-grams from each unit on.

        Args:
            ids: (B, L) tokens.
            starts: (B, U), where each unit, token or word, begins.
            spans: (B, U), its tokens.

        An n-gram that runs over the end has a meaningless weight.
        """
        keys, following, values = (one.to(ids.device) for one in (self.keys, self.next, self.values))
        values = values.to(widest_float(ids.device))
        steps = pad(spans, (0, self.max_order - 1)).unfold(1, self.max_order, 1).cumsum(2)
        dead, node = values.shape[0] - 1, torch.zeros_like(starts)
        found = torch.full_like(steps, dead)
        most = int(steps.max()) if steps.numel() and keys.numel() and ids.shape[1] else 0
        for step in range(most):
            token = ids.gather(1, (starts + step).clamp(max=ids.shape[1] - 1))
            key = torch.where(token < self.tokens, node * self.tokens + token, -1)
            place = torch.searchsorted(keys, key).clamp(max=keys.shape[0] - 1)
            node = torch.where(keys[place] == key, following[place], dead)
            found = torch.where(steps == step + 1, node[..., None], found)
        return values[found]
