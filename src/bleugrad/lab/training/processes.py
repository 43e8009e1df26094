"""The processes of a run: device, precision and communication.

A run under ``torchrun`` uses Lightning Fabric; a run of one process does not load it.
"""

import gc
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Optional, TypeVar

import torch
from torch import Tensor, nn

from bleugrad.lab.errors import UsageError
from bleugrad.lab.extras import require_extra

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")


class SingleProcess:
    """The only process of a run, and the interface of :class:`DistributedProcesses`.

    ``world`` is the number of processes, and ``group`` is for pooled statistics, None for one process.
    """

    rank: int = 0
    world: int = 1
    group: Optional["ProcessGroup"] = None

    def __init__(self, device: str = "auto", precision: str = "32") -> None:
        self.device = _device(device)
        self.precision = precision

    @property
    def is_first(self) -> bool:
        """Whether this process writes the run."""
        return self.rank == 0

    def prepare(self, module: nn.Module) -> nn.Module:
        """The module on its device and in its precision, with gradients averaged over processes."""
        module = module.to(self.device)
        return _Autocast(module, self.device.type) if self.precision == "bf16" else module

    def backward(self, loss: Tensor) -> None:
        """The backward pass."""
        loss.backward()

    def accumulation(self, module: nn.Module, last: bool) -> AbstractContextManager[Any]:
        """A context for one batch of a step: gradients are exchanged in the ``last`` batch only."""
        return nullcontext()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sums over processes, element by element, in float64."""
        return list(values)

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by rank."""
        return [value]

    def barrier(self) -> None:
        """Wait for all processes."""

    def close(self) -> None:
        """Leave the process group."""


class DistributedProcesses(SingleProcess):
    """One of several processes, on one machine or several."""

    def __init__(self, device: str = "auto", precision: str = "32") -> None:
        require_extra("distributed", "lightning_fabric", "training with several processes")
        from lightning_fabric import Fabric

        local = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
        self.fabric = Fabric(
            accelerator=_device(device).type,
            devices=local,
            num_nodes=int(os.environ["WORLD_SIZE"]) // local,
            strategy="ddp",
            precision="bf16-mixed" if precision == "bf16" else "32-true",
        )
        self.fabric.launch()
        self.rank, self.world, self.device = self.fabric.global_rank, self.fabric.world_size, self.fabric.device
        self.precision = precision
        self.group = torch.distributed.group.WORLD

    def prepare(self, module: nn.Module) -> nn.Module:
        """The module, wrapped by Fabric."""
        return self.fabric.setup_module(module)

    def backward(self, loss: Tensor) -> None:
        """The backward pass, with gradients averaged over processes."""
        self.fabric.backward(loss)

    def accumulation(self, module: nn.Module, last: bool) -> AbstractContextManager[Any]:
        """Exchange gradients in the last batch of a step only."""
        return self.fabric.no_backward_sync(module, enabled=not last)  # type: ignore[arg-type]

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sums over processes."""
        table = torch.tensor([*values], dtype=torch.float64)
        if self.device.type == "cuda":
            table = table.to(self.device)
        torch.distributed.all_reduce(table)
        return [float(value) for value in table]

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by rank."""
        found: list[Any] = [None] * self.world
        torch.distributed.all_gather_object(found, value)
        return found

    def barrier(self) -> None:
        """Wait for all processes."""
        self.fabric.barrier()

    def close(self) -> None:
        """Leave the group, and end its threads.

        A thread of gloo that outlives the interpreter aborts the process. The threads live as long as an object refers
        to the group: this one, Fabric, and reference cycles, which are collected here.
        """
        torch.distributed.destroy_process_group()
        del self.fabric
        self.group = None
        gc.collect()


def find_processes(device: str = "auto", precision: str = "32") -> SingleProcess:
    """The processes of ``torchrun``, or a single one."""
    if "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return DistributedProcesses(device, precision)
    return SingleProcess(device, precision)


class _Autocast(nn.Module):
    """Calls a module under bfloat16 autocast."""

    def __init__(self, module: nn.Module, device: str) -> None:
        super().__init__()
        self.module, self.device = module, device

    def forward(self, *arguments: Any) -> Any:
        with torch.autocast(self.device, torch.bfloat16):
            return self.module(*arguments)


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("device is 'cuda', and torch finds no GPU; expected 'cpu' or 'auto' here")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
