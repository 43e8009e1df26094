"""BLEU of the sums over a batch, and its gradient in closed form."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.operation import Outputs


def forward(
    keep: bool,
    matches: Tensor,
    totals: Tensor,
    mass: Tensor | None,
    lengths: Tensor | None,
    wanted: Tensor,
    weights: list[float],
    smoothing: float,
) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.corpus_bleu`. Keeps the sums, the mean precision and BP."""
    sums = torch.stack([matches, totals]).sum(1) + smoothing
    tiny = torch.finfo(matches.dtype).tiny
    precisions = sums[0] / sums[1].clamp(min=tiny)
    used = weight_tensor(weights, precisions)
    mean = (precisions.clamp(min=tiny).log() * used).sum().exp()
    mean = torch.where(((precisions >= tiny) | (used == 0)).all(), mean, 0)
    if mass is None:
        assert lengths is not None
        length = lengths.sum().to(matches.dtype)
    else:
        length = torch.arange(mass.shape[0], device=mass.device, dtype=mass.dtype)
    excess = (wanted.sum() - length).clamp(min=0)
    penalties = torch.exp(-excess / length.clamp(min=torch.finfo(length.dtype).tiny))
    value = mean * (penalties if mass is None else torch.dot(mass, penalties).to(matches.dtype))
    return (value,), (sums, mean, penalties)


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...]:
    """The gradients of ``matches``, ``totals`` and ``mass``."""
    matches, _, mass, _, _, weights, _ = inputs
    sums, mean, penalties = forward(True, *inputs)[1] if kept is None else kept
    whole = grads[0] * outputs[0] * (mean > 0)
    tiny = torch.finfo(matches.dtype).tiny
    of_matches, of_totals = whole * weight_tensor(weights, sums) / sums.clamp(min=tiny)
    of_mass = None if mass is None else (grads[0] * mean).to(mass.dtype) * penalties
    return of_matches.expand_as(matches), (-of_totals).expand_as(matches), of_mass


def weight_tensor(weights: list[float], like: Tensor) -> Tensor:
    """The weights as a tensor, made on its device where they are equal: no copy from the host."""
    if len(set(weights)) == 1:
        return like.new_full((len(weights),), weights[0])
    return like.new_tensor(weights)
