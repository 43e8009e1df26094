"""How corpus-level statistics are summed over the processes that hold parts of a batch.

The collectives of a step must be the same on all processes, forward and backward. A branch that leads to different
collectives is taken by a number that all processes have agreed on, see :meth:`Pool.largest`.
"""

import torch
import torch.distributed as dist
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


class ProcessPool(Pool):
    """Sums over the processes of a group.

    The backward pass sums the gradients of all processes, so averaging gradients over processes, as
    ``DistributedDataParallel`` does, gives exactly the gradient of one process that holds the whole batch.
    """

    def __init__(self, group: "dist.ProcessGroup") -> None:
        if not isinstance(group, dist.ProcessGroup):
            raise TypeError(
                f"process_group is {group!r} of type {type(group).__name__}; "
                "expected a torch.distributed.ProcessGroup, such as torch.distributed.group.WORLD"
            )
        self.group = group

    def sum(self, values: Tensor) -> Tensor:
        """Sum over processes, differentiable unless of integers.

        It is part of the graph even where nothing before it is, so that every process sums in its backward pass.
        """
        if torch.is_grad_enabled() and values.is_floating_point() and not values.requires_grad:
            values = values.detach().requires_grad_()
        summed: Tensor = _AllReduce.apply(values, self.group)  # type: ignore[no-untyped-call]
        return summed

    def largest(self, number: int, device: torch.device) -> int:
        """The largest number of any process."""
        found = torch.tensor(number, device=device)
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self.group)
        return int(found)

    def stack(self, row: Tensor) -> Tensor:
        """The rows (S,) of all processes as (P, longest S), zeros after the shorter ones, differentiably."""
        rank, processes = dist.get_rank(self.group), dist.get_world_size(self.group)
        padded = torch.nn.functional.pad(row, (0, self.largest(row.shape[0], row.device) - row.shape[0]))
        own = torch.zeros(processes, 1, dtype=row.dtype, device=row.device)
        own[rank] = 1
        return self.sum(own * padded)


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, group):  # type: ignore[no-untyped-def]
        ctx.group = group
        summed = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(summed, group=group)
        return summed

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        summed = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(summed, group=ctx.group)
        return summed, None
