"""Weights of n-grams, looked up on the device of the tokens, and the information of the n-grams of a corpus."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from bleugrad.backends.devices import widest_float
from bleugrad.references.sequences import References, reads_back


class NGramWeights:
    """A trie of n-grams as a sorted table: (node, token) leads to the next node, and each node has a weight.

    A call looks up all n-grams of a batch in O(U N log P) steps for U units and P n-grams. A table of hashes guesses
    where a key is. Guesses are compared with the key, so no two n-grams are ever confused.

    Args:
        keys: (P,) ``node * tokens + token``, ascending: entry i leads to node i + 1, and the root is node 0.
        values: (P,) the weight of each node but the root.
        tokens: a number above all ids; ``tokens - 1`` is in no n-gram.
        max_order: N.
    """

    def __init__(self, keys: Tensor, values: Tensor, tokens: int, max_order: int) -> None:
        self.tokens, self.max_order, self.dead = tokens, max_order, len(keys) + 1
        self.keys, self.values = torch.cat([keys, keys.new_tensor([(self.dead + 1) * tokens])]), pad(values, (1, 1))
        self.inner = torch.zeros(self.dead + 1, dtype=torch.bool).index_fill(0, keys // tokens, True)
        self.guesses = torch.full((1 << (4 * len(keys) + 4).bit_length(),), len(keys))
        self.guesses[self._slot(keys)] = torch.arange(len(keys))

    @classmethod
    def from_mapping(cls, weights: object, max_order: int) -> "NGramWeights":
        """Checked weights of n-grams, tuples of token ids."""
        if not isinstance(weights, Mapping):
            found = type(weights).__name__
            raise TypeError(f"weights is a {found}; expected a mapping of n-grams, tuples of token ids, to numbers")
        for gram, weight in weights.items():
            if not (isinstance(gram, tuple) and gram and all(isinstance(one, int) and one >= 0 for one in gram)):
                raise TypeError(f"weights holds the n-gram {gram!r}; expected a tuple of token ids of at least 0")
            if not isinstance(weight, int | float) or not math.isfinite(weight) or weight < 0:
                raise ValueError(f"weights has {weight!r} for {gram}; expected a finite number of at least 0")
        grams = {gram[:end] for gram in weights if weights[gram] for end in range(1, len(gram) + 1)}
        ordered = sorted(grams, key=lambda gram: (len(gram), gram))
        nodes = {gram: node for node, gram in enumerate([(), *ordered])}
        tokens = 2 + max((gram[-1] for gram in ordered), default=0)
        keys = torch.tensor([nodes[gram[:-1]] * tokens + gram[-1] for gram in ordered], dtype=torch.long)
        values = torch.tensor([weights.get(gram, 0.0) for gram in ordered], dtype=torch.float64)
        return cls(keys, values, tokens, max_order)

    @classmethod
    def information(cls, references: References, opens: Tensor | None, max_order: int) -> "NGramWeights":
        """log2 of how often the first n - 1 units of an n-gram occur for each time that it does.

        Units are tokens, or with ``opens`` (V,) bool words. All places where an n-gram begins walk down the trie
        together, a token at a time, and equal steps are numbered by sorting. An n-gram that occurs once leads to
        information 0, so the walk from there ends.
        """
        ids, lengths = references.ids.flatten(0, 1), references.lengths.flatten()[:, None]
        position = torch.arange(ids.shape[1])
        begins = position < lengths
        if opens is not None:
            begins &= opens[ids] | (position == 0)
        final = (position + 1 == lengths).flatten()
        ends = begins.flatten().roll(-1) | final
        place, ids = begins.flatten().nonzero().squeeze(1), ids.flatten()
        tokens = 2 + (int(ids.max()) if ids.numel() else 0)
        node = shorter = units = torch.zeros_like(place)
        counts, keys, values = torch.tensor([len(place)]), [node[:0]], [torch.empty(0, dtype=torch.float64)]
        while len(place):
            new, number = torch.unique(node * tokens + ids[place], return_inverse=True)
            node, ended = number + len(counts), ends[place]
            whole = node[ended]
            counts = pad(counts, (0, len(new))).index_add(0, whole, torch.ones_like(whole))
            value = torch.zeros(len(new), dtype=torch.float64)
            value[number[ended]] = (counts[shorter[ended]].double() / counts[whole]).log2()
            keys.append(new)
            values.append(value)
            shorter, units = torch.where(ended, node, shorter), units + ended
            on = ~final[place] & (units < max_order) & ~(ended & (counts[node] == 1))
            place, node, shorter, units = place[on] + 1, node[on], shorter[on], units[on]
        return cls(torch.cat(keys), torch.cat(values), tokens, max_order)

    def __repr__(self) -> str:
        return f"<{int(self.values.count_nonzero())} n-grams>"

    def __call__(self, ids: Tensor, starts: Tensor, spans: Tensor, needed: Tensor | None = None) -> Tensor:
        """The weights (N, B, U) of the n-grams from each unit on; an n-gram that runs over the end has any weight.

        Args:
            ids: (B, L) tokens.
            starts: (B, U), where each unit, token or word, begins.
            spans: (B, U), its tokens.
            needed: (N, B, U) bool, n-grams that are looked up, in tokens alone; if one is, so is the one of the order
                below it. Others have weight 0. Without it all are looked up.
        """
        keys, values, inner, guesses = (
            one.to(ids.device) for one in (self.keys, self.values, self.inner, self.guesses)
        )
        values, ids = values.to(widest_float(ids.device)), ids.clamp(max=self.tokens - 1)
        if needed is not None and reads_back(ids):
            flat, wanted = ids.t().flatten(), needed.transpose(1, 2).flatten(1)
            weights, place = values.new_zeros(wanted.shape), torch.arange(len(flat), device=ids.device)
            node = torch.zeros_like(place)
            for order in range(self.max_order):
                on = (inner.index_select(0, node) & wanted[order].index_select(0, place)).nonzero().squeeze(1)
                place = place.index_select(0, on)
                key = node.index_select(0, on) * self.tokens + flat.index_select(0, place + order * len(ids))
                at = guesses.index_select(0, self._slot(key))
                other = (keys.index_select(0, at) != key).nonzero().squeeze(1)
                at[other] = torch.searchsorted(keys, key[other])
                node = torch.where(keys.index_select(0, at) == key, at + 1, self.dead)
                weights[order].index_copy_(0, place, values.index_select(0, node))
            return weights.view(self.max_order, *ids.t().shape).transpose(1, 2)
        found = torch.full((self.max_order, *starts.shape), self.dead, device=ids.device)
        if found.numel() == 0 or ids.shape[1] == 0:
            return values[found]
        steps = pad(spans, (0, self.max_order - 1)).unfold(1, self.max_order, 1).cumsum(2).permute(2, 0, 1)
        node, row = torch.zeros_like(starts), torch.arange(len(ids), device=ids.device)[:, None]
        for step in range(int(steps.max())):
            key = node * self.tokens + ids[row, (starts + step).clamp(max=ids.shape[1] - 1)]
            at = torch.searchsorted(keys, key)
            node = torch.where(keys[at] == key, at + 1, self.dead)
            found = torch.where(steps == step + 1, node, found)
        return values[found]

    def _slot(self, key: Tensor) -> Tensor:
        """Where keys are guessed: the highest bits of the product with an odd number."""
        bits = len(self.guesses).bit_length() - 1
        return (key * -7046029254386353131) >> (64 - bits) & (len(self.guesses) - 1)
