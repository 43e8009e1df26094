"""Differences between devices: whether values are read back, their floating types, and where Triton kernels run."""

import functools
import os
from importlib.util import find_spec

import torch
from torch import Tensor

SYNCHRONOUS = {"cpu"}
"""Devices whose values the host reads without waiting.

There values are checked, and decide between shorter ways. Elsewhere reading would wait for an asynchronous device (a
GPU) and break graphs of launches, so nothing is read back: broken logits and ids outside the vocabulary make the loss
NaN or end in an assertion of the device.
"""


def widest_float(device: torch.device) -> torch.dtype:
    """The most precise floating type of a device."""
    return torch.float32 if device.type == "mps" else torch.float64


def has_triton(tensor: Tensor) -> bool:
    """Whether Triton kernels can run on the tensor's device: a GPU, or a CPU with Triton's interpreter, for tests."""
    if tensor.device.type == "cpu":
        return os.environ.get("TRITON_INTERPRET") == "1" and _installed()
    return tensor.device.type == "cuda" and os.environ.get("BLEUGRAD_KERNELS") != "0" and _installed()


@functools.cache
def _installed() -> bool:
    return find_spec("triton") is not None
