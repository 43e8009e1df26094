"""What every kind of output has in common."""

from abc import ABC, abstractmethod

import torch

from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.references.targets import Targets


class Output(ABC):
    """What a model emits for a batch of B sentences with T positions over a vocabulary of V tokens.

    A new kind of output is a subclass that says how its statistics are expected.
    :class:`bleugrad.outputs.rows.RowOutput` does that for all outputs with independent positions.
    """

    name = "logits"
    """What messages call it."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(B, T, V)."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where the output lives."""

    def sharpened(self, sharpness: float) -> "Output":
        """The same output with distributions proportional to p ^ sharpness, where it supports that."""
        raise TypeError(f"sharpness is {sharpness}, but {type(self).__name__} supports 1 only")

    @abstractmethod
    def statistics(self, targets: Targets, method: str, label_log_probs: bool = False) -> ExpectedStatistics:
        """The expected statistics against the targets, differentiable; ``method`` is "exact" or "bound".

        With ``label_log_probs`` also the log-probability of each label.
        """
