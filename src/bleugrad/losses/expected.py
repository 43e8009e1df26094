"""The loss most people import: 1 - expected BLEU, in the place of cross-entropy."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

import torch
from torch import Tensor, nn

from bleugrad.core.arguments import (
    check_choice,
    check_eos,
    check_finite_rows,
    check_int,
    check_logits,
    check_nonnegative,
)
from bleugrad.core.expected_statistics import ScoreOptions, expected_statistics, score_expectation
from bleugrad.core.match_probabilities import Gathered, match_probabilities
from bleugrad.core.pooling import Pool
from bleugrad.core.sequences import IdLists
from bleugrad.losses.labels import Targets, prepare_targets

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

REDUCTIONS = ("mean", "sum", "none")


class ExpectedLossBase(nn.Module):
    """What the losses of expected BLEU share: their options, and the way from match probabilities to the loss."""

    def __init__(
        self,
        method: str = "exact",
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        smoothing: float = 1.0,
        level: str = "corpus",
        eos_id: int | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        cross_entropy_weight: float = 0.0,
        process_group: Optional["ProcessGroup"] = None,
        word_start: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.options = ScoreOptions.checked(method, max_order, weights, smoothing, level)
        check_choice("reduction", reduction, REDUCTIONS)
        self.eos_id = None if eos_id is None else check_int("eos_id", eos_id)
        self.ignore_index = check_int("ignore_index", ignore_index)
        self.reduction = reduction
        self.cross_entropy_weight = check_nonnegative("cross_entropy_weight", cross_entropy_weight)
        self.word_start: Tensor | None
        self.register_buffer("word_start", word_start, persistent=False)
        self.pool = Pool()
        if process_group is not None:
            from bleugrad.losses.distributed import ProcessPool

            self.pool = ProcessPool(process_group)

    def extra_repr(self) -> str:
        """The options, as they were given."""
        options = self.options
        return (
            f"method={options.method!r}, max_order={options.max_order}, weights={options.weights}, "
            f"smoothing={options.smoothing}, "
            f"level={options.level!r}, eos_id={self.eos_id}, ignore_index={self.ignore_index}, "
            f"reduction={self.reduction!r}, cross_entropy_weight={self.cross_entropy_weight}, "
            f"units={'tokens' if self.word_start is None else 'words'}"
        )

    def _prepare(
        self,
        shape: tuple[int, int, int],
        device: torch.device,
        labels: Tensor | None,
        references: Tensor | IdLists | None,
        mask: Tensor | None,
    ) -> Targets:
        batch, steps, vocabulary = shape
        check_eos(self.eos_id, vocabulary)
        targets = prepare_targets(
            labels,
            references,
            mask,
            batch=batch,
            steps=steps,
            vocabulary=vocabulary,
            device=device,
            eos_id=self.eos_id,
            ignore_index=self.ignore_index,
            word_start=self.word_start,
        )
        if self.cross_entropy_weight > 0 and targets.labels is None:
            raise TypeError("labels is None; expected (B, T) token ids, since cross_entropy_weight is above 0")
        return targets

    def _wanted(self, targets: Targets) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The ids to gather, the labels if their log-probabilities are wanted, and the tokens that open a word."""
        labels = targets.labels if self.cross_entropy_weight > 0 else None
        return targets.counted.columns(), labels, targets.counted.word_start

    def _loss(self, gathered: Gathered, targets: Targets, name: str = "logits") -> Tensor:
        check_finite_rows(gathered.of_rows(), targets.mask, name)
        statistics = expected_statistics(gathered, targets.counted, targets.mask, self.options)
        loss = 1 - score_expectation(statistics, targets.counted.units, self.options, self.pool).value
        counted = targets.mask.any(1)
        if self.options.level == "sentence":
            loss = self._reduce(loss, counted)
        if self.cross_entropy_weight > 0:
            loss = loss + self.cross_entropy_weight * self._cross_entropy(gathered.target_log_probs, targets)
        return loss

    def _reduce(self, per_sentence: Tensor, counted: Tensor) -> Tensor:
        per_sentence = torch.where(counted, per_sentence, 0)
        if self.reduction == "none":
            return per_sentence
        if self.reduction == "sum":
            return per_sentence.sum()
        total, number = self.pool.sum(torch.stack([per_sentence.sum(), counted.sum().to(per_sentence.dtype)]))
        return torch.div(total, number.clamp(min=1))

    def _cross_entropy(self, label_log_probs: Tensor, targets: Targets) -> Tensor:
        labelled = targets.labelled
        assert labelled is not None
        nll = torch.where(labelled, -label_log_probs, 0)
        number = labelled.sum(1).to(nll.dtype)
        if self.options.level == "sentence" and self.reduction != "mean":
            per_sentence = nll.sum(1) / number.clamp(min=1)
            return per_sentence if self.reduction == "none" else per_sentence.sum()
        total, tokens = self.pool.sum(torch.stack([nll.sum(), number.sum()]))
        return torch.div(total, tokens.clamp(min=1))


class ExpectedBLEULoss(ExpectedLossBase):
    """1 - expected BLEU, for the place where ``nn.CrossEntropyLoss`` stands: ``loss(logits, labels)``, 0 is perfect.

    The matches are exact expectations (or the paper's bound) under independent rows, the score made of them is the
    surrogate of :func:`bleugrad.expected_bleu`; see there for what is exact and what is not.

    Args:
        method: "exact" or "bound".
        max_order: highest n-gram order N.
        weights: N non-negative numbers that sum to 1, uniform by default.
        smoothing: added to matches and totals of every order.
        level: "corpus" pools the statistics of the batch before the score, "sentence" scores each sentence.
        eos_id: makes the length random, cut before the first EOS; labels and references are cut there too.
        ignore_index: labels equal to it do not count, wherever they stand: right or left padding, a masked prompt,
            holes.
        reduction: of the sentence level: "mean" over sentences with a position that counts, "sum", or "none" for (B,),
            0 where nothing counts. The corpus level is one number whatever is given.
        cross_entropy_weight: adds this times the cross-entropy of the labels (mean over tokens; with "sum" and "none"
            at sentence level the mean of each sentence), from the same pass over the logits.
        process_group: pools statistics and means over its processes, so that with gradients averaged over processes,
            as ``DistributedDataParallel`` does, N processes give loss and gradients of one with the whole batch.
        word_start: (V,) bool, tokens that open a word; then words are counted, exactly, while labels and references
            stay token ids. See :func:`bleugrad.word_start_mask`.

    The cost is one softmax forward and one scaling of it backward, about half of cross-entropy's, and one tensor of the
    logits' size. Everything else is O(B T R) for each order. Double backward is not supported.

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

    def forward(
        self,
        logits: Tensor,
        labels: Tensor | None = None,
        *,
        references: Tensor | IdLists | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The loss.

        Args:
            logits: (B, T, V).
            labels: (B, T), as for cross-entropy. May be left out where ``references`` are given.
            references: where they are not the labels: (B, R), (B, K, R) or nested lists; lengths need not be T.
            mask: (B, T) bool, positions that count, by default those with a label. Labels elsewhere do not count.
        """
        check_logits(logits)
        batch, steps, vocabulary = logits.shape
        targets = self._prepare((batch, steps, vocabulary), logits.device, labels, references, mask)
        with torch.autocast(logits.device.type, enabled=False):
            return self._loss(match_probabilities(logits, *self._wanted(targets)), targets)
