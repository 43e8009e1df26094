"""Weights of n-grams, looked up on the device of the tokens."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from bleugrad.backends.dtypes import widest_float
from bleugrad.references.sequences import reads_back


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
        self.first = torch.full((self.tokens + 1,), len(nodes))  # the node of each token from the root
        for gram, node in nodes.items():
            if len(gram) == 1:
                self.first[gram[0]] = node
        values = [weights.get(gram, 0.0) for gram in nodes]
        self.values = torch.tensor([*values, 0.0], dtype=torch.float64)  # the last is where no n-gram leads to

    def __repr__(self) -> str:
        return f"<{self.size} n-grams>"

    def __call__(self, ids: Tensor, starts: Tensor, spans: Tensor, needed: Tensor | None = None) -> Tensor:
        """The weights (N, B, U) of the n-grams from each unit on; an n-gram that runs over the end has any weight.

        Args:
            ids: (B, L) tokens.
            starts: (B, U), where each unit, token or word, begins.
            spans: (B, U), its tokens.
            needed: (N, B, U) bool, n-grams that are looked up, in tokens alone; if one is, so is the one of the order
                below it. Others have weight 0. Without it all are looked up.
        """
        keys, following, values = (one.to(ids.device) for one in (self.keys, self.next, self.values))
        values = values.to(widest_float(ids.device))
        dead, batch = values.shape[0] - 1, len(ids)
        found = torch.full((self.max_order, *starts.shape), dead, device=ids.device)
        if found.numel() == 0 or keys.numel() == 0 or ids.shape[1] == 0:
            return values[found]
        if needed is not None and reads_back(ids):
            known = ids.clamp(max=self.tokens)
            found[0] = self.first.to(ids.device)[known]
            index = (
                needed[1 : self.max_order].any(0).flatten().nonzero().squeeze(1) if self.max_order > 1 else ids[0, :0]
            )
            flat, node = known.flatten(), found[0].flatten()[index]
            for order in range(1, self.max_order):
                if order > 1:
                    left = needed[order].flatten()[index]
                    index, node = index[left], node[left]
                node = self._child(keys, following, node, flat[index + order], dead)
                found[order].view(-1)[index] = node
            return values[found]
        steps = pad(spans, (0, self.max_order - 1)).unfold(1, self.max_order, 1).cumsum(2).permute(2, 0, 1)
        node, row = torch.zeros_like(starts), torch.arange(batch, device=ids.device)[:, None]
        for step in range(int(steps.max())):
            token = ids[row, (starts + step).clamp(max=ids.shape[1] - 1)]
            node = self._child(keys, following, node, token, dead)
            found = torch.where(steps == step + 1, node, found)
        return values[found]

    def _child(self, keys: Tensor, following: Tensor, node: Tensor, token: Tensor, dead: int) -> Tensor:
        """The node that a token leads to from a node."""
        key = torch.where(token < self.tokens, node * self.tokens + token, -1)
        place = torch.searchsorted(keys, key).clamp(max=keys.shape[0] - 1)
        return torch.where(keys[place] == key, following[place], dead)
