"""The paper's bound (eq. bleu_n): LB_n = sum_g sum_e q_e min(1, c_g / (1 + sum_{l != e} q_l)).

Equal to O_n on one-hot rows, whatever the reference. A true lower bound of E[O_n] where every reference n-gram occurs
once and does not overlap itself. **Not** a lower bound otherwise: min(1, c / (1 + z)) is not convex once c >= 2, and
overlapping windows are treated as independent. For the reference ``a a`` and p(a) = 0.5 at three positions it is 1.5,
and E[O_1] is 1.375.
"""

from typing import Optional, cast

import torch
from torch import Tensor

from bleugrad.core.expected_matches import column_blocks
from bleugrad.core.ngrams import Patterns
from bleugrad.core.windows import add_window_gradient, window_probabilities


def bound_matches(match_probs: Tensor, patterns: Patterns, survival: Tensor | None = None) -> Tensor:
    """The paper's LB_n, (B, N).

    Args:
        match_probs: (T, B, L), probability that token t is the token of column j; 0 where t is past the end.
        patterns: the distinct n-grams of each sentence with their clips.
        survival: (T, B), probability that none of the tokens 0..t ends the sequence; None where the length is fixed.
            With it, ``match_probs`` are those of the rows with EOS removed and renormalised, and the other windows are
            counted given that the window at e is alive, so that LB_n stays a bound under the same assumptions:
            ``LB_n = sum_g sum_e survival_e q_e min(1, c_g / (1 + z_e))`` with
            ``z_e = sum_{l < e} q_l + sum_{l > e} q_l survival_l / survival_e``.

    O(T B N L) time; memory as for the exact expectation. The denominator is at least 1; survival_e = 0 makes the second
    sum 0 instead of 0 / 0, and such a window has weight 0.
    """
    return cast(Tensor, _bound_matches(match_probs, patterns.clips, survival))


@torch.library.custom_op("bleugrad::bound_matches", mutates_args=())
def _bound_matches(match_probs: Tensor, clips: Tensor, survival: Optional[Tensor]) -> Tensor:
    max_order = clips.shape[1]
    matches = match_probs.new_zeros(max_order, match_probs.shape[1])
    for first, last in column_blocks(match_probs, max_order):
        windows = window_probabilities(match_probs, first, last, max_order)
        share, _ = _clipped_share(_other_windows(windows, survival), clips[:, :, first:last].transpose(0, 1))
        weighted = windows if survival is None else windows * survival[:, None, :, None]
        matches += (weighted * share).sum((0, 3))
    return matches.t().contiguous()


@torch.library.custom_op("bleugrad::bound_matches_backward", mutates_args=())
def _bound_matches_backward(
    grad: Tensor, match_probs: Tensor, clips: Tensor, survival: Optional[Tensor]
) -> tuple[Tensor, Tensor]:
    max_order = clips.shape[1]
    grad_match = torch.zeros_like(match_probs)
    grad_survival = match_probs.new_zeros(match_probs.shape[:2])
    for first, last in column_blocks(match_probs, max_order):
        windows = window_probabilities(match_probs, first, last, max_order)
        others = _other_windows(windows, survival)
        share, slope = _clipped_share(others, clips[:, :, first:last].transpose(0, 1))
        pull = windows * slope
        if survival is None:
            grad_windows = share + pull.sum(0) - pull
        else:
            alive = survival[:, None, :, None]
            earlier = pull.cumsum(0) - pull
            grad_windows = alive * (share + earlier) + _after(pull * alive)
            later = _ratio(_after(windows * alive), alive)
            grad_alive = windows * (share + earlier) - pull * later
            grad_survival += torch.einsum("tnbj,bn->tb", grad_alive, grad)
        grad_windows *= grad.t()[None, :, :, None]
        add_window_gradient(grad_match, grad_windows, windows, match_probs, first)
    return grad_match, grad_survival


@_bound_matches.register_fake
def _(match_probs: Tensor, clips: Tensor, survival: Optional[Tensor]) -> Tensor:
    return match_probs.new_empty(clips.shape[:2])


@_bound_matches_backward.register_fake
def _(grad: Tensor, match_probs: Tensor, clips: Tensor, survival: Optional[Tensor]) -> tuple[Tensor, Tensor]:
    return torch.empty_like(match_probs), match_probs.new_empty(match_probs.shape[:2])


def _save_for_backward(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    match_probs, clips, survival = ctx.saved_tensors
    grad_match, grad_survival = _bound_matches_backward(grad, match_probs, clips, survival)
    return grad_match, None, None if survival is None else grad_survival


_bound_matches.register_autograd(_backward, setup_context=_save_for_backward)


def _other_windows(windows: Tensor, survival: Tensor | None) -> Tensor:
    """z_e, the expected number of other windows that are the pattern given the one at e: (T, N, B, J)."""
    if survival is None:
        return (windows.sum(0) - windows).clamp(min=0)
    alive = survival[:, None, :, None]
    return windows.cumsum(0) - windows + _ratio(_after(windows * alive), alive)


def _clipped_share(others: Tensor, clips: Tensor) -> tuple[Tensor, Tensor]:
    """min(1, c / (1 + z)) and its derivative in z."""
    inverse = 1 / (1 + others)
    ratio = clips * inverse
    return ratio.clamp(max=1), torch.where(ratio <= 1, -ratio * inverse, 0)


def _after(values: Tensor) -> Tensor:
    """Sum over the later positions."""
    return values.flip(0).cumsum(0).flip(0) - values


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator / denominator, 0 where the denominator is 0."""
    tiny = torch.finfo(numerator.dtype).tiny
    return torch.where(denominator > tiny, numerator / denominator.clamp(min=tiny), 0)
