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
) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.counted_rows`."""
    pad = torch.nn.functional.pad
    rows = pad(counted_first(match_probs, order, limits), (0, 0, 0, extra))
    position = torch.arange(rows.shape[1] + 1, device=limits.device)
    opened, boundary, alive, stop = (rows.new_empty(0) for _ in range(4))  # outputs of operators share no memory
    if columns < rows.shape[2]:
        alive, stop = 1 - rows[..., -1].t(), pad(rows[..., -1], (0, 1)) + (position == ends[:, None])
    if opening is not None:
        opened = pad(counted_first(opening, order, limits), (0, extra))
        if extra:
            opened = opened.masked_fill(position[:-1] >= limits[:, None], 1)
        bounds = opened if columns == rows.shape[2] else opened + rows[..., -1]
        boundary = bounds.roll(-1, 1).masked_fill(position[1:] >= ends[:, None], 1).t().contiguous()
        opened = opened.t().contiguous()
    probs = rows[..., :columns].transpose(0, 1).clone(memory_format=torch.contiguous_format)
    return (probs, opened, boundary, alive.contiguous(), stop), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, Tensor | None]:
    """The gradients of ``match_probs`` and ``opening``."""
    match_probs, opening, order, limits, ends, columns, _ = inputs
    given = (None if grad is None or not grad.numel() else grad for grad in grads)  # some outputs are empty
    of_probs, of_opened, of_boundary, of_alive, of_stop = given
    (steps, batch), of_opening = outputs[0].shape[:2], None
    of_rows = match_probs.new_zeros(batch, steps, match_probs.shape[2])
    if of_probs is not None:
        of_rows[..., :columns] = of_probs.transpose(0, 1)
    of_bounds = match_probs.new_zeros(batch, steps)
    if of_boundary is not None:
        inside = torch.arange(1, max(1, steps), device=limits.device)[:, None] < ends
        of_bounds[:, 1:] = torch.where(inside, of_boundary[:-1], 0).t()
    if columns < match_probs.shape[2]:
        of_rows[..., -1] = of_bounds
        of_rows[..., -1] += 0 if of_stop is None else of_stop[:, :-1]
        of_rows[..., -1] -= 0 if of_alive is None else of_alive.t()
    if opening is not None:
        of_opened = of_bounds if of_opened is None else of_bounds + of_opened.t()
        of_opening = counted_first_backward(of_opened, order, limits, opening)
    return counted_first_backward(of_rows, order, limits, match_probs), of_opening


def counted_first(values: Tensor, order: Tensor | None, limits: Tensor) -> Tensor:
    """Move the positions that count, of (B, T) or (B, T, L), to the front, with 0 after them; None is all, as it is."""
    if order is None:
        return values
    after = torch.arange(values.shape[1], device=values.device) >= limits[:, None]
    if values.dim() == 3:
        order, after = order[..., None].expand_as(values), after[..., None]
    return values.gather(1, order).masked_fill(after, 0)


def counted_first_backward(grad: Tensor, order: Tensor | None, limits: Tensor, values: Tensor) -> Tensor:
    """The gradient of the values of :func:`counted_first`; positions after the last of the values are left out."""
    grad = grad[:, : values.shape[1]]
    if order is None:
        return grad.contiguous()
    after = torch.arange(values.shape[1], device=values.device) >= limits[:, None]
    if values.dim() == 3:
        order, after = order[..., None].expand_as(values), after[..., None]
    return torch.zeros_like(grad).scatter_add(1, order, grad.masked_fill(after, 0))
