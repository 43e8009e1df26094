"""Sums of new matches and expected totals."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.operation import Outputs


def forward(
    keep: bool, new_matches: Tensor, boundary: Tensor | None, probs: Tensor, support: Tensor | None
) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.match_totals`."""
    matches = new_matches if boundary is None else new_matches * boundary[..., None]
    totals = (probs[..., None] * _ngrams(new_matches, probs, support)).sum(1)
    return (matches.sum(0), totals), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...]:
    """The gradients of ``new_matches``, ``boundary`` and ``probs``."""
    new_matches, boundary, probs, support = inputs
    of_matches, of_totals = (torch.zeros_like(outputs[0]) if grad is None else grad for grad in grads)
    of_probs = (of_totals[:, None] * _ngrams(new_matches, probs, support)).sum(2)
    if boundary is None:
        return of_matches.expand_as(new_matches), None, of_probs
    return of_matches * boundary[..., None], (of_matches * new_matches).sum(2), of_probs


def _ngrams(new_matches: Tensor, probs: Tensor, support: Tensor | None) -> Tensor:
    """max(length - n + 1, 0) for each possible length and order: (S, N) or (B, S, N)."""
    lengths = torch.arange(probs.shape[1], device=probs.device) if support is None else support
    orders = torch.arange(new_matches.shape[2], device=probs.device)
    return (lengths[..., None] - orders).clamp(min=0).to(probs.dtype)
