"""The paper's bound over blocks of n-grams."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.windows import add_window_gradient, column_blocks, window_probabilities

BLOCK_ELEMENTS = 2**18
"""Numbers per working tensor of a block of n-grams, which fit the cache of a CPU core."""


TIE = 1e-5
"""c / (1 + z) this close to 1 counts as 1, where min(1, .) has two slopes and the one in z is taken.

Rows that are nearly equal meet c = 1 + z up to rounding, and the gradient must not depend on that. Equal to TIE in
c/bound_matches.c.
"""


def forward(
    keep: bool,
    unit_probs: Tensor,
    survival: Tensor | None,
    boundary: Tensor | None,
    clips: Tensor,
    spans: Tensor | None,
) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.bound_matches`."""
    max_order = clips.shape[1]
    matches = unit_probs.new_zeros(max_order, unit_probs.shape[1])
    for first, last in column_blocks(unit_probs, max_order, BLOCK_ELEMENTS):
        windows = window_probabilities(unit_probs, spans, first, last, max_order)
        ended = windows if boundary is None else windows * boundary[:, None, :, None]
        share, _ = _clipped_share(_other_windows(ended, survival), clips[:, :, first:last].transpose(0, 1))
        weighted = ended if survival is None else ended * survival[:, None, :, None]
        matches += (weighted * share).sum((0, 3))
    return (matches.t().contiguous(),), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, ...]:
    """The gradients of ``unit_probs``, ``survival`` and ``boundary``, 0 for inputs that are None."""
    unit_probs, survival, boundary, clips, spans = inputs
    (grad,) = grads
    max_order = clips.shape[1]
    grad_units = torch.zeros_like(unit_probs)
    grad_survival = unit_probs.new_zeros(unit_probs.shape[:2])
    grad_boundary = torch.zeros_like(grad_survival)
    for first, last in column_blocks(unit_probs, max_order, BLOCK_ELEMENTS):
        windows = window_probabilities(unit_probs, spans, first, last, max_order)
        ended = windows if boundary is None else windows * boundary[:, None, :, None]
        share, slope = _clipped_share(_other_windows(ended, survival), clips[:, :, first:last].transpose(0, 1))
        pull = ended * slope
        if survival is None:
            grad_ended = share + pull.sum(0) - pull
        else:
            alive = survival[:, None, :, None]
            earlier = pull.cumsum(0) - pull
            grad_ended = alive * (share + earlier) + _after(pull * alive)
            later = _ratio(_after(ended * alive), alive)
            grad_alive = ended * (share + earlier) - pull * later
            grad_survival += torch.einsum("tnbj,bn->tb", grad_alive, grad)
        grad_ended *= grad.t()[None, :, :, None]
        if boundary is not None:
            grad_boundary += (grad_ended * windows).sum((1, 3))
            grad_ended *= boundary[:, None, :, None]
        add_window_gradient(grad_units, grad_ended, windows, unit_probs, spans, first)
    return grad_units, grad_survival, grad_boundary


def _other_windows(windows: Tensor, survival: Tensor | None) -> Tensor:
    """z_e, the expected number of other windows that are the pattern given the one at e: (T, N, B, J)."""
    if survival is None:
        return (windows.sum(0) - windows).clamp(min=0)
    alive = survival[:, None, :, None]
    return windows.cumsum(0) - windows + _ratio(_after(windows * alive), alive)


def _clipped_share(others: Tensor, clips: Tensor) -> tuple[Tensor, Tensor]:
    """min(1, c / (1 + z)) and its derivative in z, see ``TIE``."""
    inverse = 1 / (1 + others)
    ratio = clips * inverse
    return ratio.clamp(max=1), torch.where(ratio <= 1 + TIE, -ratio * inverse, 0)


def _after(values: Tensor) -> Tensor:
    """Sum over the later positions."""
    return values.flip(0).cumsum(0).flip(0) - values


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator / denominator, 0 where the denominator is 0."""
    tiny = torch.finfo(numerator.dtype).tiny
    return torch.where(denominator > tiny, numerator / denominator.clamp(min=tiny), 0)
