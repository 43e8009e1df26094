"""The positions that count, moved to the front, time first, and how a sequence and its words end."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs


def forward(
    keep: bool,
    match_probs: Tensor,
    opening: Tensor | None,
    order: Tensor | None,
    limits: Tensor,
    ends: Tensor,
    columns: int,
    extra: int,
) -> tuple[Outputs, Tensor]:
    """See :data:`bleugrad.backends.operations.counted_rows`. Everything about a position is moved in one row."""
    rows = match_probs if opening is None else torch.cat([match_probs, opening[..., None]], 2)
    rows = rows.transpose(0, 1)
    if order is not None:
        rows = rows.gather(0, order.t()[..., None].expand_as(rows))
    if extra:
        rows = torch.nn.functional.pad(rows, (0, 0, 0, 0, 0, extra))
    position = torch.arange(len(rows) + 1, device=limits.device)[:, None]
    after = position[:-1] >= limits
    rows = rows.masked_fill(after[..., None], 0)
    probs, end, opens = rows.split([columns, match_probs.shape[2] - columns, int(opening is not None)], 2)
    opened = boundary = alive = stop = None
    if end.shape[2]:
        end = end.squeeze(2)
        alive, stop = 1 - end, torch.nn.functional.pad(end.t(), (0, 1)) + (position == ends).t()
    if opening is not None:
        opened = opens.squeeze(2).masked_fill(after, 1) if extra else opens.squeeze(2).contiguous()
        bounds = opened if alive is None else opened + end
        boundary = bounds.roll(-1, 0).masked_fill(position[1:] >= ends, 1)  # about the next token
    found = (rows.new_empty(0) if one is None else one for one in (opened, boundary, alive, stop))  # share no memory
    return (probs.contiguous(), *found), after


def backward(
    kept: Tensor | None, needs: Any, grads: Any, outputs: Outputs, inputs: Any
) -> tuple[Tensor, Tensor | None]:
    """The gradients of ``match_probs`` and ``opening``: those of the rows, moved back."""
    match_probs, opening, order, limits, ends, columns, _ = inputs
    given = (None if grad is None or not grad.numel() else grad for grad in grads)  # some outputs are empty
    of_probs, of_opened, of_boundary, of_alive, of_stop = given
    (steps, batch), every = outputs[0].shape[:2], match_probs.shape[2]
    position = torch.arange(steps + 1, device=limits.device)[:, None]
    if of_boundary is None:
        of_bounds = match_probs.new_zeros(steps, batch)
    else:
        of_bounds = of_boundary.masked_fill(position[1:] >= ends, 0).roll(1, 0)  # the last is masked
    parts = [match_probs.new_zeros(steps, batch, columns) if of_probs is None else of_probs]
    if columns < every:
        of_end = of_bounds if of_alive is None else of_bounds - of_alive
        parts.append((of_end if of_stop is None else of_end + of_stop[:, :-1].t())[..., None])
    if opening is not None:
        parts.append((of_bounds if of_opened is None else of_bounds + of_opened)[..., None])
    after = position[:-1] >= limits if kept is None else kept
    rows = torch.cat(parts, 2).masked_fill_(after[..., None], 0)[: match_probs.shape[1]]
    if order is not None:
        rows = torch.zeros_like(rows).scatter_add_(0, order.t()[..., None].expand_as(rows), rows)
    rows = rows.transpose(0, 1)
    return rows[..., :every].contiguous(), None if opening is None else rows[..., every]
