"""When Triton kernels may be used, and how they are launched."""

from typing import Any

import torch
import triton
from torch import Tensor

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def supported(*tensors: Tensor | None) -> bool:
    """Whether the kernels compute with these floating types."""
    return all(tensor is None or tensor.dtype in FLOATS for tensor in tensors)


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Launch a kernel on a grid of programs; an empty grid is no launch."""
    if 0 not in grid:
        kernel[grid](*arguments, **constants)


def lanes(size: int, most: int = 1024, least: int = 16) -> int:
    """A power of two that covers ``size``, between ``least`` and ``most``; larger sizes are walked in blocks."""
    return int(max(least, min(most, triton.next_power_of_2(max(size, 1)))))
