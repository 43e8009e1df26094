"""Metrics for evaluation loops, with states that sync over processes.

Names are resolved on first use. The error of a missing library has the command that installs it.
"""

from typing import TYPE_CHECKING

from bleugrad.extras import resolver

if TYPE_CHECKING:
    from bleugrad.metrics.lightning import BLEUCallback as BLEUCallback
    from bleugrad.metrics.scores import ExpectedScore as ExpectedScore
    from bleugrad.metrics.scores import TokenScore as TokenScore

_HOMES = {
    "BLEUCallback": ("bleugrad.metrics.lightning", "lightning", ["lightning"]),
    "ExpectedScore": ("bleugrad.metrics.scores", "metrics", ["torchmetrics"]),
    "TokenScore": ("bleugrad.metrics.scores", "metrics", ["torchmetrics"]),
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = resolver("bleugrad.metrics", _HOMES)
