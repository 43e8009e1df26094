"""How corpus-level statistics are pooled over the parts of a batch that different processes hold.

The calls of a step must be the same on all processes, forward and backward, whatever data each of them holds. A branch
that leads to different calls is taken by a number that all of them have agreed on, see :meth:`Pool.largest`.
"""

import torch
from torch import Tensor


class Pool:
    """One process holds the whole batch, so there is nothing to pool."""

    def sum(self, values: Tensor) -> Tensor:
        """Sum over processes, differentiable unless of integers."""
        return values

    def largest(self, number: int, device: torch.device) -> int:
        """The largest number of any process."""
        return number

    def stack(self, row: Tensor) -> Tensor:
        """The rows (S,) of all processes as (P, longest S), zeros after the shorter ones, differentiably."""
        return row.unsqueeze(0)
