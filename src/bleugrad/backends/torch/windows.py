"""Window probabilities: how likely the window ending at each position is each pattern of the references.

Windows are named by the position of their *last* token, so that everything about position e is known once row e is.
Layout is time first, (T, B, ...), because the recursions downstream walk over positions. Patterns are made of units,
the columns of ``unit_probs``: tokens, or words of several tokens, whose ``spans`` (B, L) say how many.
"""

from collections.abc import Iterator

import torch
from torch import Tensor


def column_blocks(unit_probs: Tensor, max_order: int, elements: int) -> Iterator[tuple[int, int]]:
    """Ranges of reference columns whose windows of all orders have at most ``elements`` numbers."""
    steps, batch, columns = unit_probs.shape
    width = max(1, elements // max(1, steps * batch * max_order))
    for first in range(0, columns if unit_probs.numel() else 0, width):
        yield first, min(first + width, columns)


def window_probabilities(unit_probs: Tensor, spans: Tensor | None, first: int, last: int, max_order: int) -> Tensor:
    """Probability that the window ending at e is the n units from column j on, for the columns ``first``..``last`` - 1.

    ``q[e, n-1, b, j] = q[e - span_{j+n-1}, n-2, b, j] * unit_probs[e, b, j+n-1]``: every order extends the one below by
    a unit. Exact, as rows are independent. Windows that do not fit (before the start, or running over the last column)
    have probability 0. Without spans every unit is one token.

    ``unit_probs`` (T, B, L) to (T, N, B, last - first). O(T B N J) time and memory.
    """
    steps, batch, columns = unit_probs.shape
    windows = unit_probs.new_zeros(steps, max_order, batch, last - first)
    windows[:, 0] = unit_probs[:, :, first:last]
    for order in range(2, max_order + 1):
        begin, end = first + order - 1, min(last + order - 1, columns)
        if end <= begin:
            continue
        below, unit = windows[:, order - 2, :, : end - begin], unit_probs[:, :, begin:end]
        above = windows[:, order - 1, :, : end - begin]
        if spans is None:
            torch.mul(below[:-1], unit[1:], out=above[1:])
        else:
            torch.mul(delayed(below, spans[:, begin:end]), unit, out=above)
    return windows


def add_window_gradient(
    grad_units: Tensor,
    grad_windows: Tensor,
    windows: Tensor,
    unit_probs: Tensor,
    spans: Tensor | None,
    first: int,
) -> None:
    """Add the gradient through ``grad_windows`` to ``grad_units`` (T, B, L); overwrites ``grad_windows``."""
    columns = unit_probs.shape[2]
    max_order, _, block = windows.shape[1:]
    for order in range(max_order, 1, -1):
        begin, end = first + order - 1, min(first + block + order - 1, columns)
        if end <= begin:
            continue
        grad_above, unit = grad_windows[:, order - 1, :, : end - begin], unit_probs[:, :, begin:end]
        below, grad_below = windows[:, order - 2, :, : end - begin], grad_windows[:, order - 2, :, : end - begin]
        if spans is None:
            grad_units[1:, :, begin:end].addcmul_(grad_above[1:], below[:-1])
            grad_below[:-1].addcmul_(grad_above[1:], unit[1:])
        else:
            grad_units[:, :, begin:end].addcmul_(grad_above, delayed(below, spans[:, begin:end]))
            grad_below += delayed(grad_above * unit, -spans[:, begin:end])
    grad_units[:, :, first : first + block] += grad_windows[:, 0]


def delayed(values: Tensor, delay: Tensor) -> Tensor:
    """values[e - delay[b, j], b, j], 0 outside: (T, B, J) and (B, J) to (T, B, J)."""
    steps = values.shape[0]
    source = torch.arange(steps, device=values.device)[:, None, None] - delay
    inside = (source >= 0) & (source < steps)
    return values.gather(0, source.clamp(0, steps - 1)) * inside
