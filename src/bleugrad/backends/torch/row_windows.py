"""Rows in the order in which they count, time first, with everything about their end."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.operation import Outputs
from bleugrad.backends.torch.scans import RunningProduct


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.row_windows`."""
    with torch.no_grad():
        return tuple(one.contiguous() for one in arrange(*inputs)), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...]:
    """The gradients of ``match_probs`` and ``opening``, from a second run that autograd records."""
    with torch.enable_grad():
        leaves = [None if one is None else one.detach().requires_grad_() for one in inputs[:2]]
        found = arrange(*leaves, *inputs[2:])
    reached = [(one, grad) for one, grad in zip(found, grads, strict=True) if grad is not None and one.requires_grad]
    wanted = [one for one in leaves if one is not None]
    gradients = iter(torch.autograd.grad(*zip(*reached, strict=True), allow_unused=True, inputs=wanted))
    return tuple(None if one is None else next(gradients) for one in leaves)


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
    match_probs = counted_first(match_probs, order, limits)
    opened = None if opening is None else counted_first(opening, order, limits)
    if most > 0:
        match_probs, opened, limits = _with_end(match_probs, opened, limits, most if more is None else more, most)
    nothing = match_probs.new_empty(0)
    alive, survival, stop, lengths = (nothing,) * 4
    if ends:
        alive, survival, stop = stopping(match_probs[..., -1], limits)
        match_probs = match_probs[..., :-1]
    if opened is None:
        if ends:
            lengths = torch.cat([stop.new_ones(stop.shape[0], 1), survival.t()], 1) * stop
        return match_probs.transpose(0, 1).contiguous(), alive, survival, stop, lengths, nothing, nothing, limits
    opened = opened.t().contiguous()
    boundary = _word_boundary(opened, limits, stop if ends else None)
    return match_probs.transpose(0, 1), alive, survival, stop, lengths, opened, boundary, limits


def counted_first(probs: Tensor, order: Tensor | None, limits: Tensor) -> Tensor:
    """Move the counted positions of (B, T) or (B, T, L) to the front, 0 after them."""
    if order is None:
        return probs
    within = torch.arange(probs.shape[1], device=probs.device) < limits[:, None]
    if probs.dim() == 3:
        order, within = order[..., None].expand_as(probs), within[..., None]
    return torch.where(within, probs.gather(1, order), 0)


def stopping(eos_probs: Tensor, limits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The fields of :class:`bleugrad.lengths.lengths.Stopping` from the probability of EOS (B, T) and limits (B,)."""
    steps = eos_probs.shape[1]
    position = torch.arange(steps + 1, device=limits.device)
    stop = torch.where(position[:steps] < limits[:, None], eos_probs, 0)
    alive = 1 - stop
    at_limit = (position == limits[:, None]).to(stop.dtype)
    survival = alive.cumprod(1) if alive.device.type in SYNCHRONOUS else RunningProduct.apply(alive)  # type: ignore[no-untyped-call]
    return alive.t(), survival.t(), torch.nn.functional.pad(stop, (0, 1)) + at_limit


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
