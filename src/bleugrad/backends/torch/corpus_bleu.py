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
    """See :data:`bleugrad.backends.operations.corpus_bleu`. Keeps the divisors, the mean precision and BP."""
    sums = torch.stack([matches, totals]).sum(1) + smoothing
    tiny = torch.finfo(matches.dtype).tiny
    divisors = sums.clamp(min=tiny)
    precisions = sums[0] / divisors[1]
    used = exponents(weights, precisions)
    logs = torch.threshold(precisions, tiny, 0).log()  # exp(-inf) = 0
    if isinstance(used, Tensor):
        mean = (logs.masked_fill(used == 0, 0) * used).sum().exp()
    else:
        mean = (logs.mean() if used * len(weights) == 1 else logs.sum() * used).exp()
    if mass is None:
        assert lengths is not None
        length = lengths.sum().to(matches.dtype)
    else:
        length = torch.arange(mass.shape[0], device=mass.device, dtype=mass.dtype)
    missing = (length - wanted.sum()).clamp(max=0)
    penalties = torch.exp(missing / length.clamp(min=torch.finfo(length.dtype).tiny))
    value = mean * (penalties if mass is None else torch.dot(mass, penalties).to(matches.dtype))
    return (value,), (divisors, mean, penalties)


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...]:
    """The gradients of ``matches``, ``totals`` and ``mass``."""
    matches, _, mass, _, _, weights, _ = inputs
    divisors, mean, penalties = forward(True, *inputs)[1] if kept is None else kept
    of_matches, of_totals = grads[0] * outputs[0] * exponents(weights, divisors) / divisors
    of_mass = None if mass is None else (grads[0] * mean).to(mass.dtype) * penalties
    return of_matches.expand_as(matches), (-of_totals).expand_as(matches), of_mass


def exponents(weights: list[float], like: Tensor) -> Tensor | float:
    """The weights as a tensor, or as a number where they are equal: no copy from the host."""
    return weights[0] if len(set(weights)) == 1 else like.new_tensor(weights)
