"""Counts the operations of a call, and forbids those that make the host wait for a device."""

from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode

VIEWS = {"aten::detach", "aten::alias", "aten::lift_fresh", "aten::_unsafe_view", "aten::_reshape_alias"}
WAITING = {
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::item",
    "aten::nonzero",
    "aten::masked_select",
    "aten::equal",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::repeat_interleave",
    "aten::bincount",
}
"""Operations whose result, or its shape, the host has to read."""


class Launches(TorchDispatchMode):
    """``counts``: operations by name, without views and empty tensors, which start no work on a device."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name
        if name in WAITING or (name.startswith("aten::index") and _has_mask(args)):
            raise AssertionError(f"{name} makes the host wait")
        if not (function.is_view or name in VIEWS or "empty" in name):
            self.counts[name] += 1
        return function(*args, **(kwargs or {}))

    @property
    def total(self):
        return sum(self.counts.values())


def _has_mask(args):
    found = [one for one in args if isinstance(one, list | tuple)]
    return any(isinstance(one, torch.Tensor) and one.dtype == torch.bool for row in found for one in row)
