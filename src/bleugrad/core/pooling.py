"""How corpus-level statistics are pooled over the parts of a batch that different processes hold."""

from torch import Tensor


class Pool:
    """One process holds the whole batch, so there is nothing to pool."""

    def sum(self, values: Tensor) -> Tensor:
        """Sum over processes, differentiably."""
        return values

    def stack(self, row: Tensor) -> Tensor:
        """The rows (S,) of all processes as (P, longest S), zeros after the shorter ones, differentiably."""
        return row.unsqueeze(0)
