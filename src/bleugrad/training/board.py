"""Curves for TensorBoard, where they are asked for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bleugrad.extras import require_extra

FOLDER = "tensorboard"


class Board:
    """Writes scalars for TensorBoard beside metrics.jsonl, or nothing.

    Args:
        run: the run's directory, or None to write nothing.
        step: the step the run is at; curves of a run that was broken off go back to it.
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
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
