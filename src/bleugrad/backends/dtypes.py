"""The floating types that are computed in."""

import torch
from torch import Tensor


def compute_dtype(values: Tensor) -> torch.dtype:
    """The type probabilities are computed in: float64 for float64, else float32."""
    return torch.float64 if values.dtype == torch.float64 else torch.float32


def widest_float(device: torch.device) -> torch.dtype:
    """The most precise floating type of a device."""
    return torch.float32 if device.type == "mps" else torch.float64
