"""The loss most people import: 1 - expected BLEU, in the place of cross-entropy."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from bleugrad.arguments import check_nonnegative, check_share
from bleugrad.expectation import Expectation, score_output
from bleugrad.losses import recipe
from bleugrad.losses.base import BLEULossBase, LossBase
from bleugrad.losses.recipe import adaptive_share, smoothed_log_probs
from bleugrad.matches.method import MatchMethod
from bleugrad.outputs.output import Output
from bleugrad.references.sequences import IdLists


@dataclass(kw_only=True, eq=False, repr=False)
class RowLossBase(LossBase):
    """1 - the score of an expectation, plus the weighted cross-entropy of the labels."""

    cross_entropy_weight: float = 0.0
    label_smoothing: float = 0.0
    adaptive: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_nonnegative("cross_entropy_weight", self.cross_entropy_weight)
        check_share("label_smoothing", self.label_smoothing)
        for name in ("label_smoothing", "adaptive"):
            if (value := getattr(self, name)) and self.cross_entropy_weight == 0:
                found = f"{name} is {value}, but cross_entropy_weight is 0"
                raise ValueError(f"{found}; expected 1 or another weight above 0")

    def forward(
        self,
        logits: Tensor | Output,
        labels: Tensor | None = None,
        *,
        references: Tensor | IdLists | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss.

        Args:
            logits: (B, T, V), or an output object: :class:`bleugrad.Projection`, :class:`bleugrad.CTC` or
                :class:`bleugrad.Graph`.
            labels: (B, T), as for cross-entropy; (B, R) for CTC and graphs. Optional if ``references`` are given.
            references: (B, R), (B, K, R) or nested lists, of any lengths. Default: the labels.
            mask: (B, T) bool, positions that count. Default: positions with a label. Labels elsewhere are ignored.
        """
        level, pool = self.expectation.level, self.pool
        value, statistics, targets = score_output(
            logits,
            self.expectation,
            labels=labels,
            references=references,
            mask=mask,
            word_start=self.word_start,
            label_log_probs=self.cross_entropy_weight > 0,
            pool=pool,
        )
        loss, log_probs = 1 - value, statistics.label_log_probs
        weight: Tensor | float = self.cross_entropy_weight
        if self.adaptive:
            assert log_probs is not None
            assert targets.labelled is not None
            share = adaptive_share(log_probs, targets.labelled, level, pool)
            loss, weight = share * loss, weight * (1 - share)
        if level == "sentence":
            loss = self.reduce(loss, targets.limits > 0)
        if log_probs is None:
            return loss
        log_probs = smoothed_log_probs(log_probs, statistics.mean_log_probs, self.label_smoothing)
        return loss + self.cross_entropy(log_probs, targets, weight)


@dataclass(eq=False, repr=False)
class ExpectedScoreLoss(RowLossBase):
    """1 - the score of an expectation, for any :class:`~bleugrad.scores.score.Score`. 0 is perfect.

    Takes an :class:`~bleugrad.expectation.Expectation`, and options of :class:`bleugrad.ExpectedBLEULoss`.
    """

    expectation: Expectation[Any]

    def make_expectation(self) -> Expectation[Any]:
        """Return the expectation that was given."""
        return self.expectation


@dataclass(kw_only=True, eq=False, repr=False)
class ExpectedBLEULoss(RowLossBase, BLEULossBase):
    """1 - expected BLEU, called like ``nn.CrossEntropyLoss``: ``loss(logits, labels)``. 0 is perfect.

    The expected matches are exact for independent rows, or the paper's bound. The score is a surrogate of expected
    BLEU; :func:`bleugrad.expected_bleu` states what is exact.

    Args:
        method, level, max_order, weights, smoothing, word_start: as for :func:`bleugrad.expected_bleu`.
        eos_id: makes the length random: a hypothesis ends before its first EOS, and so do labels and references.
        sharpness: scores distributions proportional to p ^ sharpness, so that the model itself need not become certain.
            The cross-entropy is that of the model. Both come from the same pass over the logits.
        end_positions: with ``eos_id``, the number of tokens, or words, that match nothing and are added to a hypothesis
            that does not end in time. With 0, such a hypothesis has one token too many, which costs too little.
        ignore_index: labels equal to it do not count, at any position: right or left padding, a masked prompt, gaps.
        reduction: "mean" over sentences with a position that counts, "sum", or "none" for (B,), which is 0 for
            sentences without such a position. At corpus level there is one value, so "sum" equals "mean", and "none" is
            an error.
        cross_entropy_weight: adds this times the cross-entropy of the labels, from the same pass over the logits. It is
            the mean over tokens; at sentence level with "sum" and "none" it is the mean of each sentence.
        label_smoothing: share of the uniform distribution in the targets of the cross-entropy, 0 to 1. Needs
            ``cross_entropy_weight``.
        adaptive: the loss is ``(1 - s) CE + s (1 - BLEU)``, CE times ``cross_entropy_weight``. The share s,
            :func:`bleugrad.losses.recipe.bleu_share`, is near 0 if the model predicts the labels badly, so that
            cross-entropy trains a weak model. At corpus level the batch has one share, at sentence level each sentence
            has its own. Needs ``cross_entropy_weight``.
        inplace: the backward pass writes the gradient over the logits, so that no second tensor of their size exists.
            The logits cannot be used afterwards, and must not be a leaf of the graph. Compiled graphs ignore it.
        process_group: pools statistics over its processes. If gradients are averaged over processes, as
            ``DistributedDataParallel`` does, loss and gradients equal those of one process with the whole batch. An
            error with "sum" and "none" at sentence level, where there is nothing to pool.

    The logits are read once forward and once backward, and their gradient is the only other tensor of their size. All
    other steps take O(B T R) per order. Double backward is not supported.

    Example:
        >>> import torch, bleugrad
        >>> _ = torch.manual_seed(0)
        >>> logits = torch.randn(2, 5, 100, requires_grad=True)
        >>> labels = torch.tensor([[5, 17, 3, 42, 2], [9, 61, 2, -100, -100]])
        >>> loss = bleugrad.ExpectedBLEULoss()(logits, labels)
        >>> loss.backward()
        >>> round(loss.item(), 3), logits.grad.shape
        (0.811, torch.Size([2, 5, 100]))
    """

    method: MatchMethod | str = "exact"
    level: str = "corpus"
    sharpness: float = 1.0
    end_positions: int = 0
    inplace: bool = False
    recommended: ClassVar[type["RecommendedBLEULoss"]]


@dataclass(kw_only=True, eq=False, repr=False)
class RecommendedBLEULoss(ExpectedBLEULoss):
    """:class:`bleugrad.ExpectedBLEULoss` with the defaults of :mod:`bleugrad.losses.recipe`. It needs ``eos_id``.

    Example:
        >>> import bleugrad
        >>> bleugrad.ExpectedBLEULoss.recommended(eos_id=2).adaptive
        True
    """

    level: str = recipe.LEVEL
    sharpness: float = recipe.SHARPNESS
    end_positions: int = recipe.END_POSITIONS
    cross_entropy_weight: float = 1.0
    adaptive: bool = True


ExpectedBLEULoss.recommended = RecommendedBLEULoss
