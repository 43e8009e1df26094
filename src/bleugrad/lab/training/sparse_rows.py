"""Rows in which few tokens have a probability: the members of a soft beam."""

import torch
from torch import Tensor

from bleugrad.outputs import RowOutput, TokenProbabilities


class SparseRows(RowOutput):
    """Distributions given by the probabilities of a few tokens; all other tokens have probability 0.

    ``G[b, t, j]`` is the sum of ``probs[b, t, c]`` over the entries c whose token is ``ids[b, j]``. Nothing is
    normalised. O(B T C + B V) time, and memory without a tensor of the size (B, T, V).

    Args:
        tokens: (B, T, C) ids, within 0..V-1. A token may occur several times in a row.
        probs: (B, T, C), their probabilities, which sum to 1 in each row.
        vocabulary: V.

    Example:
        >>> import torch, bleugrad
        >>> tokens = torch.tensor([[[5, 7], [6, 6]]])
        >>> rows = SparseRows(tokens, torch.tensor([[[0.75, 0.25], [0.5, 0.5]]]), vocabulary=9)
        >>> bleugrad.expected_bleu(rows, torch.tensor([[5, 6]]), max_order=2).matches.tolist()
        [[1.75, 0.75]]
    """

    name = "probs"

    def __init__(self, tokens: Tensor, probs: Tensor, vocabulary: int) -> None:
        batch, steps, _ = probs.shape
        if tokens.shape != probs.shape or tokens.is_floating_point():
            found = f"tokens is {tokens.dtype} {tuple(tokens.shape)}"
            raise ValueError(f"{found}; expected token ids of the shape of probs, {tuple(probs.shape)}")
        self.shape, self.device = (batch, steps, vocabulary), probs.device
        self.tokens, self.probs = tokens, probs.to(torch.promote_types(probs.dtype, torch.float32))

    def token_probabilities(self, ids: Tensor, targets: Tensor | None, word_start: Tensor | None) -> TokenProbabilities:
        """See :meth:`RowOutput.token_probabilities`."""
        if targets is not None:
            raise TypeError("labels have no log-probability where tokens have probability 0; expected no cross-entropy")
        batch, steps, vocabulary = self.shape
        number = ids.shape[1]
        column = torch.arange(number, device=ids.device).expand(batch, -1)
        column_of = ids.new_full((batch, vocabulary), number).scatter(1, ids, column)  # any of several equal ids
        found = column_of.gather(1, self.tokens.flatten(1)).view_as(self.tokens)
        sums = self.probs.new_zeros(batch, steps, number + 1).scatter_add(2, found, self.probs)
        matched = sums.gather(2, column_of.gather(1, ids)[:, None].expand(-1, steps, -1))
        opening = matched.new_empty(0) if word_start is None else (self.probs * word_start[self.tokens]).sum(2)
        return TokenProbabilities(matched, matched.new_empty(0), opening)
