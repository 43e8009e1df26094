"""Valid entries to the front, by a scatter."""

import torch
from torch import Tensor

from bleugrad.backends.operation import Outputs


def forward(keep: bool, valid: Tensor, values: Tensor | None, eos_id: int | None) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.close_up`."""
    if values is None:
        values = torch.arange(valid.shape[-1], device=valid.device).expand(valid.shape)
    if eos_id is not None:
        valid = valid & (((values == eos_id) & valid).cumsum(-1) == 0)
    counts, size = valid.cumsum(-1), values.shape[-1]
    closed = values.new_zeros(*values.shape[:-1], size + 1).scatter(-1, counts * valid, values)  # 0: not valid
    return (closed[..., 1:], counts[..., -1] if size else valid.sum(-1)), None
