"""What all losses share: their options, and the way from one number per sentence to the loss."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, TypedDict

import torch
from torch import Tensor, nn

from bleugrad.arguments import check_choice, check_nonnegative, check_share
from bleugrad.distributed import Pool, ProcessPool
from bleugrad.expectation import Expectation
from bleugrad.references.targets import Targets

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

REDUCTIONS = ("mean", "sum", "none")


class LossOptions(TypedDict, total=False):
    """The options that every loss of BLEU takes; :class:`bleugrad.ExpectedBLEULoss` describes them."""

    max_order: int
    weights: Sequence[float] | None
    smoothing: float
    eos_id: int | None
    ignore_index: int
    word_start: Tensor | None
    reduction: str
    cross_entropy_weight: float
    process_group: Optional["ProcessGroup"]


class LossBase(nn.Module):
    """A loss of a score. ``expectation`` holds the checked options of what is computed."""

    word_start: Tensor | None

    def __init__(
        self,
        expectation: Expectation[Any],
        *,
        word_start: Tensor | None = None,
        reduction: str = "mean",
        cross_entropy_weight: float = 0.0,
        label_smoothing: float = 0.0,
        adaptive: bool = False,
        process_group: Optional["ProcessGroup"] = None,
    ) -> None:
        super().__init__()
        check_choice("reduction", reduction, REDUCTIONS)
        if reduction == "none" and expectation.level == "corpus":
            raise ValueError(
                "reduction is 'none', but level is 'corpus', which has one value; expected level='sentence'"
            )
        self.expectation, self.reduction = expectation, reduction
        self.cross_entropy_weight = check_nonnegative("cross_entropy_weight", cross_entropy_weight)
        self.label_smoothing, self.adaptive = check_share("label_smoothing", label_smoothing), adaptive
        if adaptive and self.cross_entropy_weight == 0:
            raise ValueError("adaptive is True, but cross_entropy_weight is 0; expected 1 or another weight above 0")
        self.register_buffer("word_start", word_start, persistent=False)
        self.pool: Pool | None = None if process_group is None else ProcessPool(process_group)

    def extra_repr(self) -> str:
        """The options."""
        expectation = self.expectation
        return (
            f"score={expectation.score}, method={expectation.method!r}, level={expectation.level!r}, "
            f"eos_id={expectation.eos_id}, ignore_index={expectation.ignore_index}, reduction={self.reduction!r}, "
            f"cross_entropy_weight={self.cross_entropy_weight}, "
            f"units={'tokens' if self.word_start is None else 'words'}"
        )

    def reduce(self, per_sentence: Tensor, counted: Tensor) -> Tensor:
        """Mean over the counted sentences (B,), their sum, or the values, 0 elsewhere."""
        per_sentence = torch.where(counted, per_sentence, 0)
        if self.reduction == "none":
            return per_sentence
        return per_sentence.sum() if self.reduction == "sum" else self._mean(per_sentence, counted)

    def add_cross_entropy(self, loss: Tensor, label_log_probs: Tensor | None, targets: Targets) -> Tensor:
        """The loss plus the weighted cross-entropy of the labels."""
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
        """Sum of the values over the number that counts, of all processes."""
        sums = torch.stack([values.sum(), counted.sum().to(values.dtype)])
        total, number = sums if self.pool is None else self.pool.sum(sums)
        return torch.div(total, number.clamp(min=1))
