"""What every kind of output has in common."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.references.targets import Targets


class Output(ABC):
    """What a model emits for a batch of B sentences with T positions over a vocabulary of V tokens.

    A new kind of output is a subclass that says how its statistics are expected.
    :class:`bleugrad.outputs.rows.RowOutput` does that for all outputs with independent positions.
    """

    name = "logits"
    """What messages call it."""

    aligned = True
    """Whether position t of the labels is compared with position t of the output; otherwise labels are references."""

    lengths: Tensor | None = None
    """(B,), how many positions of each sentence count; None for all."""

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
        """The expected statistics against the targets, differentiable.

        ``method`` is "exact", "bound" or "clipped_mean". With ``label_log_probs`` also the log-probability of each
        label.
        """


class UnalignedOutput(Output):
    """An output made of ``logits`` (B, T, V) whose labels are references, since its length follows from it."""

    aligned = False
    logits: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """(B, T, V)."""
        batch, steps, vocabulary = self.logits.shape
        return batch, steps, vocabulary

    @property
    def device(self) -> torch.device:
        """Where the logits live."""
        return self.logits.device

    def check_options(self, targets: Targets, method: str) -> None:
        """Raise for options that outputs without aligned labels do not have."""
        name = type(self).__name__
        if method == "bound":
            raise ValueError(f"method is 'bound', but {name} has no such bound; expected 'exact' or 'clipped_mean'")
        if targets.eos_id is not None:
            raise ValueError(f"eos_id is {targets.eos_id}, but the length of {name} follows from it; expected None")
        if targets.words is not None:
            raise ValueError(f"word_start is given, but {name} counts tokens only; expected None")
