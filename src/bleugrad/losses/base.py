"""Options that losses share, as dataclass fields, and the way from one value per sentence to the loss."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, distributed, nn

from bleugrad.arguments import check_choice
from bleugrad.distributed import Pool, ProcessPool
from bleugrad.expectation import Expectation
from bleugrad.references.targets import Targets
from bleugrad.scores.bleu import BLEU

REDUCTIONS = ("mean", "sum", "none")


@dataclass(kw_only=True, eq=False, repr=False)
class LossBase(nn.Module):
    """A loss module whose options are its fields; :class:`bleugrad.ExpectedBLEULoss` describes them.

    Options are checked once and cannot be changed. ``dataclasses.replace(loss, reduction="sum")`` makes another loss.
    A subclass adds fields and sets ``expectation``. ``pool`` sums over the processes of ``process_group``.
    """

    word_start: Tensor | None = None
    reduction: str = "mean"
    process_group: "distributed.ProcessGroup | None" = None

    def __post_init__(self) -> None:
        word_start = self.__dict__.pop("word_start")
        nn.Module.__init__(self)
        self.register_buffer("word_start", word_start, persistent=False)
        self.expectation = self.make_expectation()
        check_choice("reduction", self.reduction, REDUCTIONS)
        self.pool: Pool | None = None if self.process_group is None else ProcessPool(self.process_group)
        if self.expectation.level == "corpus":
            if self.reduction == "none":
                found = "reduction is 'none', but level is 'corpus', which has one value"
                raise ValueError(f"{found}; expected level='sentence'")
        elif self.pool is not None and self.reduction != "mean":
            found = f"process_group is given, but reduction is {self.reduction!r}, which needs no other process"
            raise ValueError(f"{found}; expected process_group=None, or reduction='mean'")

    def make_expectation(self) -> Expectation[Any]:
        """Return the validated options of the score."""
        raise NotImplementedError

    def __setattr__(self, name: str, value: Any) -> None:
        if "pool" in self.__dict__ and name in self.__dataclass_fields__:
            raise AttributeError(f"{name} is an option of a loss, which cannot change; use dataclasses.replace")
        super().__setattr__(name, value)

    def extra_repr(self) -> str:
        """The options."""
        options = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.name != "word_start"]
        return ", ".join([f"units={'tokens' if self.word_start is None else 'words'}", *options])

    def reduce(self, per_sentence: Tensor, counted: Tensor) -> Tensor:
        """Reduce (B,) to the mean over counted sentences, to their sum, or to the values, with 0 elsewhere."""
        per_sentence = torch.where(counted, per_sentence, 0)
        if self.reduction == "none":
            return per_sentence
        return per_sentence.sum() if self.reduction == "sum" else self._mean(per_sentence, counted)

    def cross_entropy(self, label_log_probs: Tensor, targets: Targets, weight: Tensor | float) -> Tensor:
        """Return the cross-entropy of the labels from their log-probabilities (B, T), reduced as the loss is.

        ``weight`` is a factor of the whole batch, or (B,) of each sentence at sentence level.
        """
        labelled = targets.labelled
        assert labelled is not None
        nll = torch.where(labelled, -label_log_probs, 0)
        if self.expectation.level == "corpus":
            return weight * self._mean(nll, labelled)
        per_sentence = weight * nll.sum(1)
        if self.reduction == "mean":
            return self._mean(per_sentence, labelled)
        per_sentence = per_sentence / labelled.sum(1).clamp(min=1)
        return per_sentence if self.reduction == "none" else per_sentence.sum()

    def _mean(self, values: Tensor, counted: Tensor) -> Tensor:
        """Divide the sum of the values by the number that counts, over all processes."""
        total, number = values.sum(), counted.sum()
        if self.pool is not None:
            total, number = self.pool.sum(torch.stack([total, number.to(total.dtype)]))
        return total / number.clamp(min=1)


del LossBase.word_start  # the default of the field; as an attribute of the class it would hide the buffer


@dataclass(kw_only=True, eq=False, repr=False)
class BLEULossBase(LossBase):
    """A loss on BLEU, of each sentence unless it has the option ``level``."""

    max_order: int = 4
    weights: Sequence[float] | None = None
    smoothing: float = 1.0
    eos_id: int | None = None
    ignore_index: int = -100

    def make_expectation(self) -> Expectation[BLEU]:
        """Return the validated options of the score."""
        options = {one.name: getattr(self, one.name) for one in fields(Expectation) if hasattr(self, one.name)}
        return Expectation(BLEU(self.max_order, self.weights, self.smoothing), **({"level": "sentence"} | options))
