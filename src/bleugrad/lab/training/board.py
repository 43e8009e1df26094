"""Curves for TensorBoard, and for Weights & Biases."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from bleugrad.lab.extras import require_extra
from bleugrad.lab.runs.directory import Run
from bleugrad.lab.training.config import TrainConfig

FOLDER = "tensorboard"
PROJECT = "bleugrad"


class Board(Protocol):
    """Takes the measurements of a run beside metrics.jsonl."""

    def write(self, group: str, step: int, values: Mapping[str, Any]) -> None:
        """Add the numbers among the values."""

    def close(self) -> None:
        """Write the remaining points."""


def open_boards(config: TrainConfig, run: Run, step: int) -> list[Board]:
    """The boards of the settings, of a run that is at ``step``."""
    boards: list[Board] = []
    if config.tensorboard:
        boards.append(TensorBoard(run.path, step))
    if config.wandb:
        boards.append(Wandb(run, asdict(config)))
    return boards


class TensorBoard:
    """Writes scalars into the directory of a run. After a resume at ``step``, later points are removed."""

    def __init__(self, run: Path, step: int = 0) -> None:
        require_extra("tensorboard", "tensorboard", "curves for TensorBoard")
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(run / FOLDER), purge_step=step + 1)

    def write(self, group: str, step: int, values: Mapping[str, Any]) -> None:
        """Add the numbers among the values."""
        for name, value in numbers(values).items():
            self._writer.add_scalar(f"{group}/{name}", value, step)

    def close(self) -> None:
        """Write the remaining points."""
        self._writer.close()


class Wandb:
    """Sends scalars to Weights & Biases, as the same run after a resume.

    ``WANDB_MODE``, ``WANDB_PROJECT`` and the other variables of wandb hold, and its files are in the run directory.
    """

    def __init__(self, run: Run, config: dict[str, Any]) -> None:
        require_extra("wandb", "wandb", "curves for Weights & Biases")
        import wandb

        same = hashlib.blake2b(f"{run.path.resolve()} {run.about['started']}".encode(), digest_size=6).hexdigest()
        self._run: Any = wandb.init(
            project=PROJECT, name=run.path.name, id=same, resume="allow", dir=str(run.path), config=config
        )

    def write(self, group: str, step: int, values: Mapping[str, Any]) -> None:
        """Add the numbers among the values."""
        self._run.log({f"{group}/{name}": value for name, value in numbers(values).items()}, step=step)

    def close(self) -> None:
        """Send the remaining points."""
        self._run.finish()


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among the values."""
    return {name: value for name, value in values.items() if isinstance(value, int | float)}
