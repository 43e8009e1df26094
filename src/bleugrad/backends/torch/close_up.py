"""Valid entries to the front, by a scatter."""

import torch
from torch import Tensor

from bleugrad.backends.operation import Outputs


def forward(keep: bool, valid: Tensor, values: Tensor | None, eos_id: int | None) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.close_up`."""
    if values is None:
        values = torch.arange(valid.shape[-1], device=valid.device).expand(valid.shape)
    if eos_id is not None:
        valid = valid & (((values == eos_id) & valid).long().cumsum(-1) == 0)
    size = values.shape[-1]
    target = torch.where(valid, valid.long().cumsum(-1) - 1, size)
    closed = values.new_zeros(*values.shape[:-1], size + 1).scatter(-1, target, values)
    return (closed[..., :size], valid.sum(-1)), None
