"""The number of words: in pairs for a fixed length, token by token for a random one."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dtypes import widest_float
from bleugrad.backends.operation import Outputs
from bleugrad.backends.torch import sum_distribution


def forward(
    keep: bool, opening: Tensor, limits: Tensor, alive: Tensor | None, stop: Tensor | None
) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.word_counts`. O(T log^2 T) time per sentence, O(T^2) with ``stop``."""
    return (_distribution(opening, limits, alive, stop),), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> list[Tensor | None]:
    """The gradients of ``opening``, ``alive`` and ``stop``, by torch's autograd."""
    opening, limits, alive, stop = inputs
    with torch.enable_grad():
        leaves: list[Any] = [None if one is None else one.detach().requires_grad_() for one in (opening, alive, stop)]
        probs = _distribution(leaves[0], limits, *leaves[1:])
        wanted = [leaf for leaf, need in zip(leaves, needs, strict=True) if need and leaf is not None]
        found = iter(torch.autograd.grad(probs, wanted, grads[0], allow_unused=True, materialize_grads=True))
    return [next(found) if need and leaf is not None else None for leaf, need in zip(leaves, needs, strict=True)]


def _distribution(opening: Tensor, limits: Tensor, alive: Tensor | None, stop: Tensor | None) -> Tensor:
    if alive is None or stop is None:
        return _fixed_length(opening, limits)
    steps, batch = opening.shape
    reached = torch.nn.functional.pad(opening.new_ones(batch, 1), (0, steps))  # (B, words), token by token
    probs = reached * stop[:, :1]
    for step in range(steps):
        lives = alive[step][:, None]
        opens = lives if step == 0 else opening[step][:, None]
        longer = torch.nn.functional.pad(reached[:, :-1], (1, 0))
        reached = reached * (lives - opens) + longer * opens
        probs = probs + reached * stop[:, step + 1 : step + 2]
    return probs


def _fixed_length(opening: Tensor, limits: Tensor) -> Tensor:
    """1 + a sum of independent indicators: a product of polynomials, taken in pairs, in float64."""
    steps, batch = opening.shape
    position = torch.arange(steps, device=limits.device)
    certain = torch.where(position == 0, 1.0, opening.t().to(widest_float(opening.device)))
    opens = torch.where(position < limits[:, None], certain, 0)
    if opens.numel() == 0:
        return opening.new_ones(batch, steps + 1) + opening.sum()  # 0, but part of the graph
    mass = torch.stack([1 - opens, opens], 2)[None]
    return sum_distribution.convolve_pairs(mass)[0][0, :, : steps + 1].to(opening.dtype)
