"""The paper's bound (eq. bleu_n): LB_n = sum_g sum_e q_e min(1, c_g / (1 + sum_{l != e} q_l)).

Equal to O_n on one-hot rows, whatever the reference. A true lower bound of E[O_n] where every reference n-gram occurs
once and does not overlap itself. **Not** a lower bound otherwise: min(1, c / (1 + z)) is not convex once c >= 2, and
overlapping windows are treated as independent. For the reference ``a a`` and p(a) = 0.5 at three positions it is 1.5,
and E[O_1] is 1.375. Nor is it one of words: that an occurrence ends makes it likelier that the next begins there.
"""

from typing import Optional, cast

import torch
from torch import Tensor

from bleugrad.core.blocks import column_blocks
from bleugrad.core.native.kernels import kernels_for
from bleugrad.core.ngrams import Patterns
from bleugrad.core.operators import outside_autocast, refuse_double_backward, save_inputs
from bleugrad.core.windows import add_window_gradient, window_probabilities

BLOCK_ELEMENTS = 2**18
"""How many numbers one working tensor of a block of n-grams may hold: what stays in a CPU core's cache."""


TIE = 1e-5
"""c / (1 + z) this close to 1 counts as 1, where min(1, .) has two slopes and the one in z is taken.

Rows that are nearly equal meet c = 1 + z up to rounding, and the gradient must not depend on that. Equal to TIE in
native/bound.c.
"""


def bound_matches(
    unit_probs: Tensor, patterns: Patterns, survival: Tensor | None = None, boundary: Tensor | None = None
) -> Tensor:
    """The paper's LB_n, (B, N).

    Args:
        unit_probs: (T, B, L), probability that the window ending at t is the unit (token or word) of column j; 0 where
            t is past the end.
        patterns: the distinct n-grams of each sentence with their clips.
        survival: (T, B), probability that none of the tokens 0..t ends the sequence; None where the length is fixed.
            With it, ``unit_probs`` are those of the rows with EOS removed and renormalised, and the other windows are
            counted given that the window at e is alive, so that LB_n stays a bound under the same assumptions:
            ``LB_n = sum_g sum_e survival_e q_e min(1, c_g / (1 + z_e))`` with
            ``z_e = sum_{l < e} q_l + sum_{l > e} q_l survival_l / survival_e``.
        boundary: (T, B), probability that a word can end at t, since the next token opens one or the sequence ends;
            None where every token is a word. It multiplies every q.

    O(T B N L) time; memory as for the exact expectation. The denominator is at least 1; survival_e = 0 makes the second
    sum 0 instead of 0 / 0, and such a window has weight 0.
    """
    return cast(Tensor, _bound_matches(unit_probs, survival, boundary, patterns.clips, patterns.spans))


@torch.library.custom_op("bleugrad::bound_matches", mutates_args=())
def _bound_matches(
    unit_probs: Tensor,
    survival: Optional[Tensor],
    boundary: Optional[Tensor],
    clips: Tensor,
    spans: Optional[Tensor],
) -> Tensor:
    kernels = kernels_for(unit_probs) if survival is None else None
    if kernels is not None:
        return kernels.bound(unit_probs, boundary, clips, spans)
    max_order = clips.shape[1]
    matches = unit_probs.new_zeros(max_order, unit_probs.shape[1])
    for first, last in column_blocks(unit_probs, max_order, BLOCK_ELEMENTS):
        windows = window_probabilities(unit_probs, spans, first, last, max_order)
        ended = windows if boundary is None else windows * boundary[:, None, :, None]
        share, _ = _clipped_share(_other_windows(ended, survival), clips[:, :, first:last].transpose(0, 1))
        weighted = ended if survival is None else ended * survival[:, None, :, None]
        matches += (weighted * share).sum((0, 3))
    return matches.t().contiguous()


@torch.library.custom_op("bleugrad::bound_matches_backward", mutates_args=())
def _bound_matches_backward(
    grad: Tensor,
    unit_probs: Tensor,
    survival: Optional[Tensor],
    boundary: Optional[Tensor],
    clips: Tensor,
    spans: Optional[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    kernels = kernels_for(unit_probs) if survival is None else None
    if kernels is not None:
        found, of_boundary = kernels.bound_backward(grad, unit_probs, boundary, clips, spans)
        return found, torch.zeros_like(of_boundary), of_boundary
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


@_bound_matches.register_fake
def _(
    unit_probs: Tensor,
    survival: Optional[Tensor],
    boundary: Optional[Tensor],
    clips: Tensor,
    spans: Optional[Tensor],
) -> Tensor:
    return unit_probs.new_empty(clips.shape[:2])


@_bound_matches_backward.register_fake
def _(
    grad: Tensor,
    unit_probs: Tensor,
    survival: Optional[Tensor],
    boundary: Optional[Tensor],
    clips: Tensor,
    spans: Optional[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    rows = unit_probs.shape[:2]
    return torch.empty_like(unit_probs), unit_probs.new_empty(rows), unit_probs.new_empty(rows)


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    saved = ctx.saved_tensors
    with outside_autocast(grad):
        grad_units, grad_survival, grad_boundary = _bound_matches_backward(grad, *saved)
    _, survival, boundary, *_ = saved
    kept = (None if survival is None else grad_survival, None if boundary is None else grad_boundary)
    return grad_units, *kept, None, None


_bound_matches.register_autograd(_backward, setup_context=save_inputs)
refuse_double_backward(_bound_matches_backward)


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
