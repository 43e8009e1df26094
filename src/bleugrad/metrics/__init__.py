"""Metrics for evaluation loops, with states that sync over processes.

==================  ==============================================================================================
``ExpectedBLEU``    a ``torchmetrics`` metric: mean expected BLEU of sentences, with its certified interval
``TokenBLEU``       a ``torchmetrics`` metric: BLEU of token ids, equal to sacreBLEU's
``BLEUCallback``    the Lightning callback that computes both in validation and logs them
==================  ==============================================================================================

Names are resolved on first use, and a library that is missing is named with the command that installs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bleugrad.extras import require_extra

if TYPE_CHECKING:
    from bleugrad.metrics.expected import ExpectedBLEU as ExpectedBLEU
    from bleugrad.metrics.lightning import BLEUCallback as BLEUCallback
    from bleugrad.metrics.tokens import TokenBLEU as TokenBLEU

_HOMES = {
    "BLEUCallback": ("bleugrad.metrics.lightning", "lightning", "lightning"),
    "ExpectedBLEU": ("bleugrad.metrics.expected", "metrics", "torchmetrics"),
    "TokenBLEU": ("bleugrad.metrics.tokens", "metrics", "torchmetrics"),
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bleugrad.metrics' has no attribute {name!r}")
    home, extra, needed = _HOMES[name]
    require_extra(extra, needed, f"bleugrad.metrics.{name}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
