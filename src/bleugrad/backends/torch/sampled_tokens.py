"""Tokens drawn from the softmax of each row, block by block."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.operations import sampled_tokens
from bleugrad.backends.torch.row_probabilities import row_blocks


def forward(keep: bool, logits: Tensor, uniform: Tensor) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.sampled_tokens`."""
    tokens, greedy = sampled_tokens.shapes(logits, uniform)
    for block in row_blocks(logits):
        probs = logits[block].softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        tokens[block], greedy[block] = draw_tokens(probs, uniform[block]), probs.argmax(-1)
    return (tokens, greedy), None


def draw_tokens(probs: Tensor, uniform: Tensor) -> Tensor:
    """Tokens (B, T, S) of rows ``probs`` (B, T, V) by inverting their running sums at ``uniform`` (B, T, S) in 0..1.

    Exact up to the rounding of that sum, which is in the type of ``uniform``. A token of probability 0 is never drawn:
    the running sum does not rise there, and the number looked up stays below the last sum, since uniform numbers are at
    most 1 - 2^-53 and the product with that rounds down.

    O(B T (V + S log V)) time, and the memory of the running sums and the result. Perturbing every logit with noise
    (Gumbel) instead takes V random numbers per row, on a CPU twenty times as long at V = 32000.

    >>> draw_tokens(torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]), torch.rand(1, 2, 2)).tolist()
    [[[1, 1], [2, 2]]]
    """
    sums = probs.cumsum(-1, dtype=uniform.dtype)
    tokens = torch.searchsorted(sums, uniform * sums[..., -1:], right=True)
    return tokens.clamp_(max=probs.shape[2] - 1)  # only a row of NaN, which does not count, leads past the end
