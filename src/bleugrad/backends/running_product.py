"""Running products whose gradient allows factors of 0 and reads nothing back on asynchronous devices."""

from typing import cast

from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.torch.scans import RunningProduct


def running_product(values: Tensor) -> Tensor:
    """``values.cumprod(-1)``. The gradient of torch's own ``cumprod`` waits for asynchronous devices (GPUs)."""
    if values.device.type in SYNCHRONOUS:
        return values.cumprod(-1)
    return cast(Tensor, RunningProduct.apply(values))  # type: ignore[no-untyped-call]
