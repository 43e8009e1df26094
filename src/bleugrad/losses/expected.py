"""The loss most people import: 1 - expected BLEU, in the place of cross-entropy."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

from torch import Tensor

from bleugrad.losses import recipe
from bleugrad.losses.base import LossBase, LossOptions
from bleugrad.losses.recipe import adaptive_weight, smoothed_log_probs
from bleugrad.outputs.output import Output
from bleugrad.references.sequences import IdLists
from bleugrad.scores.bleu import BLEU
from bleugrad.scores.expectation import Expectation, expected_score

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from typing_extensions import Unpack


class ExpectedOptions(LossOptions, total=False):
    """The options of :class:`ExpectedBLEULoss`."""

    method: str
    level: str
    sharpness: float
    end_positions: int | str
    label_smoothing: float
    adaptive: bool


class ExpectedScoreLoss(LossBase):
    """1 - the score of an expectation, for any :class:`~bleugrad.scores.score.Score`: 0 is perfect.

    Takes an :class:`~bleugrad.scores.expectation.Expectation` and the options ``word_start``, ``reduction``,
    ``cross_entropy_weight``, ``label_smoothing``, ``adaptive`` and ``process_group`` of
    :class:`bleugrad.ExpectedBLEULoss`.
    """

    def forward(
        self,
        logits: Tensor | Output,
        labels: Tensor | None = None,
        *,
        references: Tensor | IdLists | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The loss.

        Args:
            logits: (B, T, V), or an output object: :class:`bleugrad.Projection`, :class:`bleugrad.CTC` or
                :class:`bleugrad.Graph`.
            labels: (B, T), as for cross-entropy; (B, R) for CTC and graphs. May be left out where ``references`` are
                given.
            references: where they are not the labels: (B, R), (B, K, R) or nested lists; lengths need not be T.
            mask: (B, T) bool, positions that count, by default those with a label. Labels elsewhere do not count.
        """
        level, with_labels = self.expectation.level, self.cross_entropy_weight > 0
        value, statistics, targets = expected_score(
            logits, self.expectation, self.pool, labels, references, mask, self.word_start, with_labels
        )
        loss, log_probs = 1 - value, statistics.label_log_probs
        if self.adaptive:
            assert log_probs is not None
            assert targets.labelled is not None
            loss = adaptive_weight(log_probs, targets.labelled, level, self.pool) * loss
        if level == "sentence":
            loss = self.reduce(loss, targets.limits > 0)
        if log_probs is None:
            return loss
        if self.label_smoothing > 0:
            assert targets.labels is not None
            log_probs = smoothed_log_probs(log_probs, logits, targets.labels, self.label_smoothing)
        return self.add_cross_entropy(loss, log_probs, targets)


class ExpectedBLEULoss(ExpectedScoreLoss):
    """1 - expected BLEU, in the place of ``nn.CrossEntropyLoss``: ``loss(logits, labels)``, 0 is perfect.

    The matches are exact expectations (or the paper's bound) under independent rows, the score made of them is the
    surrogate of :func:`bleugrad.expected_bleu`; see there for what is exact and what is not.

    Args:
        method: "exact", "bound" (the paper's), or "clipped_mean" (min(E[count], c), a baseline of one-pass models).
        level: "corpus" pools the statistics of the batch before the score, "sentence" scores each sentence. The corpus
            level is one number, so ``reduction="none"`` is an error there.
        max_order: highest n-gram order N.
        weights: N non-negative numbers that sum to 1, uniform by default.
        smoothing: added to matches and totals of every order.
        eos_id: makes the length random: a hypothesis ends before its first EOS, and so do labels and references.
        sharpness: scores distributions proportional to p ^ sharpness, so that the model itself need not become certain.
            The cross-entropy stays that of the model. Values other than 1 cost one more tensor of the logits' size.
        end_positions: with ``eos_id``, this many positions after the last one that counts, with tokens that match
            nothing. Without them a hypothesis that does not end in time has one token too many, whatever follows.
            "half" is half as many as the reference has tokens, or words, which balances the gradients that lower EOS
            before the end of the reference and raise it there.
        ignore_index: labels equal to it do not count, wherever they stand: right or left padding, a masked prompt,
            holes.
        word_start: (V,) bool, tokens that open a word; then words are counted, exactly, while labels and references
            stay token ids. See :func:`bleugrad.word_start_mask`.
        reduction: "mean" over sentences with a position that counts, "sum", or "none" for (B,), 0 where nothing counts.
        cross_entropy_weight: adds this times the cross-entropy of the labels (mean over tokens; at sentence level with
            "sum" and "none" the mean of each sentence), from the same pass over the logits.
        label_smoothing: share of the uniform distribution in the targets of the cross-entropy, 0 to 1.
        adaptive: multiplies ``1 - BLEU`` by :func:`bleugrad.losses.recipe.bleu_weight`, which is near 0 where the model
            predicts the labels badly, so that cross-entropy trains a weak model. At sentence level each sentence has
            its own weight, at corpus level the batch has one.
        process_group: sums statistics and means over its processes, so that with gradients averaged over processes, as
            ``DistributedDataParallel`` does, N processes give loss and gradients of one with the whole batch.

    The cost is one softmax forward and one scaling of it backward, and one tensor of the logits' size. Everything else
    is O(B T R) per order, most of the time where V is small beside N R. Double backward is not supported.

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

    def __init__(
        self,
        *,
        method: str = "exact",
        level: str = "corpus",
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        smoothing: float = 1.0,
        eos_id: int | None = None,
        sharpness: float = 1.0,
        end_positions: int | str = 0,
        ignore_index: int = -100,
        word_start: Tensor | None = None,
        reduction: str = "mean",
        cross_entropy_weight: float = 0.0,
        label_smoothing: float = 0.0,
        adaptive: bool = False,
        process_group: Optional["ProcessGroup"] = None,
    ) -> None:
        super().__init__(
            Expectation(
                BLEU(max_order, weights, smoothing), method, level, eos_id, ignore_index, sharpness, end_positions
            ),
            word_start=word_start,
            reduction=reduction,
            cross_entropy_weight=cross_entropy_weight,
            label_smoothing=label_smoothing,
            adaptive=adaptive,
            process_group=process_group,
        )

    @classmethod
    def recommended(cls, **options: "Unpack[ExpectedOptions]") -> "ExpectedBLEULoss":
        """The loss with the recommended options of :mod:`bleugrad.losses.recipe`, and others by name. Needs ``eos_id``.

        Example:
            >>> import bleugrad
            >>> bleugrad.ExpectedBLEULoss.recommended(eos_id=2).adaptive
            True
        """
        chosen: ExpectedOptions = {
            "level": recipe.LEVEL,
            "sharpness": recipe.SHARPNESS,
            "end_positions": recipe.END_POSITIONS,
            "cross_entropy_weight": 1.0,
            "adaptive": True,
        }
        chosen.update(options)
        return cls(**chosen)
