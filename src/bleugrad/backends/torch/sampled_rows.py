"""Sampled tokens and their log-probabilities from one softmax.

Samples are drawn from the softmax by inverting its running sum, the log-probabilities are read from it, and the
backward pass scales it in place and returns it as the gradient of the logits: one tensor of the logits' size for any
number of samples.
"""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.row_gradient import RowGradient
from bleugrad.backends.torch.row_probabilities import log_probabilities, row_blocks, scale_rows, softmax_and_opening


def forward(
    keep: bool, logits: Tensor, uniform: Tensor, chosen: Tensor, word_start: Tensor | None
) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.sampled_rows`."""
    probs, opening = softmax_and_opening(logits, word_start)
    tokens, greedy = draw_tokens(probs, uniform), probs.argmax(-1)
    every = torch.cat([tokens, chosen], 2)
    log_probs = log_probabilities(logits, probs.gather(2, every), every)
    return (tokens, log_probs, greedy, opening), probs if keep else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor]:
    """The gradient of the logits, in the place of the softmax if that was kept."""
    logits, _, chosen, word_start = inputs
    tokens, log_probs, _, opening = outputs
    _, grad_log_probs, _, grad_opening = grads
    probs = softmax_and_opening(logits, None)[0] if kept is None else kept
    row = RowGradient.of((None, grad_log_probs, grad_opening), log_probs[..., :0], opening)
    scale_rows(probs, row, word_start)
    nothing = tokens.new_empty(logits.shape[0], 0)
    row.add_sparse(probs, nothing, torch.cat([tokens, chosen], 2))
    return (probs.to(logits.dtype),)


def draw_tokens(probs: Tensor, uniform: Tensor) -> Tensor:
    """Tokens (B, T, S) of rows ``probs`` (B, T, V) by inverting their running sums at ``uniform`` (B, T, S) in 0..1.

    Exact up to the rounding of that sum, which is in the type of ``uniform``. A token of probability 0 is never drawn:
    the running sum does not rise there, and the number looked up stays below the last sum, since uniform numbers are at
    most 1 - 2^-53 and the product with that rounds down.

    O(B T (V + S log V)) time, and no memory but a block of running sums and the result. Perturbing every logit with
    noise (Gumbel) instead takes V random numbers per row, on a CPU twenty times as long at V = 32000.

    >>> draw_tokens(torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]), torch.rand(1, 2, 2)).tolist()
    [[[1, 1], [2, 2]]]
    """
    samples, vocabulary = uniform.shape[2], probs.shape[2]
    flat, points = probs.reshape(-1, vocabulary), uniform.reshape(-1, samples)
    tokens = torch.empty_like(points, dtype=torch.int64)
    for block in row_blocks(probs):
        sums = flat[block].cumsum(-1, dtype=uniform.dtype)
        tokens[block] = torch.searchsorted(sums, points[block] * sums[:, -1:], right=True)
    tokens.clamp_(max=vocabulary - 1)  # only a row of NaN, which does not count, leads past the end
    return tokens.view(uniform.shape)
