"""What every kind of output has in common."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from bleugrad.matches.method import MatchMethod
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.references.targets import Targets


class Output(ABC):
    """What a model emits for a batch of B sentences with T positions over a vocabulary of V tokens.

    A new kind of output is a subclass that says how its statistics are expected.
    :class:`bleugrad.outputs.rows.RowOutput` does that for all outputs with independent positions.
    """

    shape: tuple[int, int, int]
    """(B, T, V)."""

    device: torch.device
    """Where the output lives."""

    name = "logits"
    """What messages call it."""

    aligned = True
    """Whether position t of the labels is compared with position t of the output; otherwise labels are references."""

    lengths: Tensor | None = None
    """(B,), how many positions of each sentence count; None for all."""

    def sharpened(self, sharpness: float) -> "Output":
        """The same output with distributions proportional to p ^ sharpness, where it supports that."""
        raise TypeError(f"sharpness is {sharpness}, but {type(self).__name__} supports 1 only")

    def label_margins(self, labels: Tensor) -> Tensor:
        """The logit of each label (B, T) minus the mean logit of its row, (B, T), for label smoothing.

        The mean of -log p over the vocabulary is -log p[label] plus this margin.
        """
        raise TypeError(f"label_smoothing is above 0, but {type(self).__name__} does not support it; expected 0")

    @abstractmethod
    def statistics(self, targets: Targets, method: MatchMethod, label_log_probs: bool = False) -> ExpectedStatistics:
        """The expected statistics against the targets, differentiable.

        ``method`` says how matches are expected. With ``label_log_probs`` also the log-probability of each label.
        """


class UnalignedOutput(Output):
    """An output whose labels are references, since its length follows from it."""

    aligned = False

    def check_options(self, targets: Targets) -> None:
        """Raise for options that outputs without aligned labels do not have."""
        name = type(self).__name__
        if targets.eos_id is not None:
            raise ValueError(f"eos_id is {targets.eos_id}, but the length of {name} follows from it; expected None")
        if targets.words is not None:
            raise ValueError(f"word_start is given, but {name} counts tokens only; expected None")
