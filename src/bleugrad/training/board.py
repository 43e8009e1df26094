"""Curves for TensorBoard."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bleugrad.extras import require_extra

FOLDER = "tensorboard"


class Board:
    """Writes scalars into the directory of a ``run``, or nothing if that is None.

    After a resume at ``step``, later points of the curves are removed.
    """

    def __init__(self, run: Path | None, step: int = 0) -> None:
        self._writer: Any = None
        if run is not None:
            require_extra("tensorboard", "tensorboard", "curves for TensorBoard")
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(run / FOLDER), purge_step=step + 1)

    def write(self, group: str, step: int, values: Mapping[str, Any]) -> None:
        """Add the numbers among the values."""
        if self._writer is None:
            return
        for name, value in values.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def close(self) -> None:
        """Write the remaining points."""
        if self._writer is not None:
            self._writer.close()
