"""What every kind of output has in common."""

from abc import ABC, abstractmethod
from copy import copy

import torch
from torch import Tensor

from bleugrad.matches.method import MatchMethod
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.references.targets import Targets


class Output(ABC):
    """What a model emits for a batch of B sentences with T positions over a vocabulary of V tokens.

    A new kind of output subclasses it with :meth:`statistics`, or :class:`bleugrad.outputs.rows.RowOutput` if its
    positions are independent.
    """

    shape: tuple[int, int, int]  #: (B, T, V).
    device: torch.device  #: where the output lives.
    name = "logits"  #: what messages call it.
    aligned = True  #: whether label t is compared with position t of the output; otherwise labels are references.
    lengths: Tensor | None = None  #: (B,), how many positions of each sentence count; None for all.
    sharpness: float | None = None  #: p ^ sharpness is scored; None for outputs that support 1 only.
    logits: Tensor  #: the logits, if the output has them.
    inplace = False  #: whether the backward pass writes the gradient over the logits.

    def sharpened(self, sharpness: float) -> "Output":
        """The same output with distributions proportional to p ^ sharpness; log-probabilities of labels stay."""
        if self.sharpness is None:
            raise TypeError(f"sharpness is {sharpness}, but {type(self).__name__} supports 1 only")
        other = copy(self)
        other.sharpness = self.sharpness * sharpness
        return other

    def overwriting(self) -> "Output":
        """The same output, whose backward pass writes the gradient over the logits."""
        if not hasattr(self, "logits"):
            raise TypeError(f"inplace is True, but {type(self).__name__} has no logits; expected False")
        if self.logits.is_leaf and self.logits.requires_grad:
            raise ValueError("inplace is True, but logits is a leaf tensor; expected logits that a model computed")
        other = copy(self)
        other.inplace = True
        return other

    @abstractmethod
    def statistics(self, targets: Targets, method: MatchMethod, label_log_probs: bool = False) -> ExpectedStatistics:
        """The expected statistics against the targets, differentiable.

        ``method`` says how matches are expected. With ``label_log_probs`` also the log-probability of each label, and,
        where label smoothing is supported, the mean log-probability of all tokens.
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
