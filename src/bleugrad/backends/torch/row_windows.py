"""Rows in the order in which they count, time first, with everything about their end."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.scans import RunningProduct, running_product_gradient


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.row_windows`."""
    with torch.no_grad():
        return tuple(one.contiguous() for one in arrange(*inputs)), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...]:
    """The gradients of ``match_probs`` and ``opening``."""
    match_probs, opening, order, limits, _, _, ends = inputs
    units, alive, survival, stop, _, _, _, new_limits = outputs
    of_units, of_alive, of_survival, of_stop, of_lengths, of_opened, of_boundary = (
        torch.zeros_like(output) if grad is None else grad for grad, output in zip(grads[:7], outputs[:7], strict=True)
    )
    of_rows, pad, steps = of_units.transpose(0, 1), torch.nn.functional.pad, match_probs.shape[1]
    of_next = None
    if opening is not None:  # the boundary at t - 1 looks at t
        position = torch.arange(units.shape[0], device=limits.device)
        of_next = pad(of_boundary[:-1], (0, 0, 1, 0)).t() * (position < new_limits[:, None])
    if ends:
        of_ended, of_reached = of_stop, of_survival.t()
        if opening is None:
            reached = pad(survival.t(), (1, 0), value=1.0)
            of_ended, of_reached = of_ended + of_lengths * reached, of_reached + (of_lengths * stop)[:, 1:]
        of_lives = of_alive.t() + running_product_gradient(alive.t(), survival.t(), of_reached)
        of_end = of_ended[:, :-1] - of_lives
        of_rows = torch.cat([of_rows, (of_end if of_next is None else of_end + of_next).unsqueeze(2)], 2)
    found = [_put_back(of_rows, order, limits, steps)]
    if of_next is not None:
        found.append(_put_back(of_opened.t() + of_next, order, limits, steps))
    return found[0], found[1] if opening is not None else None


def _put_back(grad: Tensor, order: Tensor | None, limits: Tensor, steps: int) -> Tensor:
    """The adjoint of :func:`counted_first`, without the positions that were appended."""
    within = torch.arange(steps, device=grad.device) < limits[:, None]
    if grad.dim() == 3:
        within = within[..., None]
    grad = grad[:, :steps] * within
    if order is None:
        return grad
    order = order[..., None].expand_as(grad) if grad.dim() == 3 else order
    return torch.zeros_like(grad).scatter_add_(1, order, grad)


def arrange(
    match_probs: Tensor,
    opening: Tensor | None,
    order: Tensor | None,
    limits: Tensor,
    more: Tensor | None,
    most: int,
    ends: bool,
) -> Outputs:
    """The outputs of :data:`bleugrad.backends.operations.row_windows`, by operations that autograd knows."""
    match_probs, opened = _counted_rows(match_probs, opening, order, limits)
    if most > 0:
        match_probs, opened, limits = _with_end(match_probs, opened, limits, most if more is None else more, most)
    nothing = match_probs.new_empty(0)
    alive, survival, stop, lengths = (nothing,) * 4
    if ends:
        match_probs, eos_probs = match_probs.split([match_probs.shape[2] - 1, 1], 2)
        alive, survival, stop = stopping(eos_probs.squeeze(2), limits)
    if opened is None:
        if ends:
            lengths = torch.nn.functional.pad(survival.t(), (1, 0), value=1.0) * stop
        return match_probs.transpose(0, 1).contiguous(), alive, survival, stop, lengths, nothing, nothing, limits
    opened = opened.t().contiguous()
    boundary = _word_boundary(opened, limits, stop if ends else None)
    return match_probs.transpose(0, 1), alive, survival, stop, lengths, opened, boundary, limits


def _counted_rows(
    match_probs: Tensor, opening: Tensor | None, order: Tensor | None, limits: Tensor
) -> tuple[Tensor, Tensor | None]:
    """:func:`counted_first` of both; as one tensor where few operations matter more than a copy."""
    if opening is None or order is None or match_probs.device.type in SYNCHRONOUS:
        opened = None if opening is None else counted_first(opening, order, limits)
        return counted_first(match_probs, order, limits), opened
    joined = torch.cat([match_probs, opening[..., None]], 2)
    match_probs, opening = counted_first(joined, order, limits).split([match_probs.shape[2], 1], 2)
    return match_probs, opening.squeeze(2)


def counted_first(probs: Tensor, order: Tensor | None, limits: Tensor) -> Tensor:
    """Move the counted positions of (B, T) or (B, T, L) to the front, 0 after them."""
    if order is None:
        return probs
    after = torch.arange(probs.shape[1], device=probs.device) >= limits[:, None]
    if probs.dim() == 3:
        order, after = order[..., None].expand_as(probs), after[..., None]
    return probs.gather(1, order).masked_fill(after, 0)


def stopping(eos_probs: Tensor, limits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The fields of :class:`bleugrad.lengths.lengths.Stopping` from the probability of EOS (B, T) and limits (B,).

    The probability is 0 after the limit.
    """
    alive = 1 - eos_probs
    at_limit = torch.arange(eos_probs.shape[1] + 1, device=limits.device) == limits[:, None]
    survival = alive.cumprod(1) if alive.device.type in SYNCHRONOUS else RunningProduct.apply(alive)  # type: ignore[no-untyped-call]
    return alive.t(), survival.t(), torch.nn.functional.pad(eos_probs, (0, 1)) + at_limit


def _with_end(
    match_probs: Tensor, opening: Tensor | None, limits: Tensor, number: int | Tensor, most: int
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Append positions that certainly hold a token that matches nothing, a word of its own, to sentences that count.

    ``number`` may differ by sentence, (B,), and is at most ``most``, by which the tensors grow.
    """
    pad = torch.nn.functional.pad
    if opening is not None:
        after = torch.arange(opening.shape[1] + most, device=limits.device) >= limits[:, None]
        opening = pad(opening, (0, most)).masked_fill(after, 1)
    return pad(match_probs, (0, 0, 0, most)), opening, torch.where(limits > 0, limits + number, 0)


def _word_boundary(opening: Tensor, limits: Tensor, stop: Tensor | None) -> Tensor:
    """(T, B): probability that the token after t opens a word or the sequence ends there."""
    after = torch.arange(1, opening.shape[0] + 1, device=limits.device)[:, None]
    opens = opening.roll(-1, 0)
    if stop is not None:
        opens = opens + stop[:, 1:].t()
    return opens.masked_fill(after >= limits, 1)
