"""Options that all losses share, and the way from one value per sentence to the loss."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, TypeAlias

import torch
from torch import Tensor, nn

from bleugrad.arguments import check_choice, check_nonnegative
from bleugrad.distributed import Pool, ProcessPool
from bleugrad.expectation import Expectation
from bleugrad.references.targets import Targets

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Group: TypeAlias = Optional["ProcessGroup"]
REDUCTIONS = ("mean", "sum", "none")


@dataclass(frozen=True)
class LossOptions:
    """Validated options of a loss; :class:`bleugrad.ExpectedBLEULoss` describes them.

    ``pool`` sums over the processes of ``process_group``. It is None for one process.
    """

    expectation: Expectation[Any]
    reduction: str
    process_group: Group
    cross_entropy_weight: float
    pool: Pool | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_choice("reduction", self.reduction, REDUCTIONS)
        check_nonnegative("cross_entropy_weight", self.cross_entropy_weight)
        pool = None if self.process_group is None else ProcessPool(self.process_group)
        if self.expectation.level == "corpus":
            if self.reduction == "none":
                found = "reduction is 'none', but level is 'corpus', which has one value"
                raise ValueError(f"{found}; expected level='sentence'")
        elif pool is not None and self.reduction != "mean":
            found = f"process_group is given, but reduction is {self.reduction!r}, which needs no other process"
            raise ValueError(f"{found}; expected process_group=None, or reduction='mean'")
        object.__setattr__(self, "pool", pool)

    def reduce(self, per_sentence: Tensor, counted: Tensor) -> Tensor:
        """Reduce (B,) to the mean over counted sentences, to their sum, or to the values, with 0 elsewhere."""
        per_sentence = torch.where(counted, per_sentence, 0)
        if self.reduction == "none":
            return per_sentence
        return per_sentence.sum() if self.reduction == "sum" else self._mean(per_sentence, counted)

    def add_cross_entropy(self, loss: Tensor, label_log_probs: Tensor | None, targets: Targets) -> Tensor:
        """Add the weighted cross-entropy of the labels, if their log-probabilities (B, T) are given."""
        if label_log_probs is None:
            return loss
        labelled = targets.labelled
        assert labelled is not None
        nll = torch.where(labelled, -label_log_probs, 0)
        if self.expectation.level == "sentence" and self.reduction != "mean":
            per_sentence = nll.sum(1) / labelled.sum(1).clamp(min=1)
            cross_entropy = per_sentence if self.reduction == "none" else per_sentence.sum()
        else:
            cross_entropy = self._mean(nll, labelled)
        return loss + self.cross_entropy_weight * cross_entropy

    def _mean(self, values: Tensor, counted: Tensor) -> Tensor:
        """Divide the sum of the values by the number that counts, over all processes."""
        sums = torch.stack([values.sum(), counted.sum().to(values.dtype)])
        total, number = sums if self.pool is None else self.pool.sum(sums)
        return torch.div(total, number.clamp(min=1))


class LossBase(nn.Module):
    """A loss module: it stores validated options, and calls a function with them."""

    word_start: Tensor | None

    def __init__(self, options: LossOptions, word_start: Tensor | None) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("word_start", word_start, persistent=False)

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.options}, units={'tokens' if self.word_start is None else 'words'}"
