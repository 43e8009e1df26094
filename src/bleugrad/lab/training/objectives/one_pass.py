"""Objectives of one-pass models: the likelihood of the reference, expected BLEU, or both."""

import torch
import torch.nn.functional as F
from torch import Tensor

from bleugrad import CTC, ExpectedBLEULoss
from bleugrad.lab.data.batches import IGNORED, Batch
from bleugrad.lab.models.one_pass import BLANK, OnePassModel, places
from bleugrad.lab.special_ids import EOS
from bleugrad.lab.training.objectives.base import Objective
from bleugrad.lab.training.objectives.config import (
    CrossEntropyConfig,
    ExpectedConfig,
    RecommendedConfig,
)
from bleugrad.lab.training.objectives.rows import expected_loss


class Positions(Objective):
    """The objective of a "nat" model: one distribution per position, and a random length by EOS.

    A model usually has more positions than the reference has tokens. Their label is EOS. Expected BLEU counts the words
    that they would add.
    """

    model: OnePassModel

    def make_loss(self, word_start: Tensor | None) -> ExpectedBLEULoss | None:
        """None for the likelihood."""
        if isinstance(self.config, ExpectedConfig | RecommendedConfig):
            return expected_loss(self.config, self.group, word_start, EOS)
        return None

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        logits, lengths = self.model(batch.source, batch.source_lengths)
        mask = places(lengths, logits.shape[1])
        further = logits.shape[1] - batch.labels.shape[1]
        labels = F.pad(batch.labels, (0, further), value=IGNORED)  # a negative number cuts off
        labels = labels.masked_fill(labels == IGNORED, EOS)
        if self.loss is None or self.likelihood_only:
            smoothing = self.config.label_smoothing if isinstance(self.config, CrossEntropyConfig) else 0.0
            return self.cross_entropy(logits, labels.masked_fill(~mask, IGNORED), smoothing)
        references = without_eos(batch.labels) if batch.references is None else batch.references
        loss: Tensor = self.loss(logits, labels, references=references, mask=mask)
        return loss


class Frames(Objective):
    """The objective of a "ctc" model: one distribution per frame; equal neighbours are merged and blanks removed."""

    model: OnePassModel

    def make_loss(self, word_start: Tensor | None) -> ExpectedBLEULoss | None:
        """None for the likelihood, which is also added here and not in the loss."""
        if isinstance(self.config, ExpectedConfig):
            return expected_loss(self.config, self.group, None, None, cross_entropy_weight=0.0)
        return None

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        logits, lengths = self.model(batch.source, batch.source_lengths)
        if self.loss is None or self.likelihood_only:
            return self.likelihood(logits, lengths, batch.labels)
        frames = CTC(logits, blank_id=BLANK, lengths=lengths)
        loss: Tensor = self.loss(frames, without_eos(batch.labels), references=batch.references)
        weight = getattr(self.config, "cross_entropy_weight", 0.0)
        return loss + weight * self.likelihood(logits, lengths, batch.labels) if weight else loss

    def likelihood(self, logits: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        """The CTC loss per token of the reference, in float32; a reference that has no place in its frames counts 0."""
        labels = without_eos(labels)
        spoken = labels != IGNORED
        tokens = spoken.sum(1)
        with torch.autocast(logits.device.type, enabled=False):
            log_probs = F.log_softmax(logits.float(), -1).transpose(0, 1)
            total = log_probs.sum()  # of no sentences, which ctc_loss refuses
            if len(tokens):
                ids = labels.masked_fill(~spoken, BLANK)
                total = F.ctc_loss(log_probs, ids, lengths, tokens, BLANK, reduction="sum", zero_infinity=True)
        return self.mean(total, tokens.sum())


def without_eos(labels: Tensor) -> Tensor:
    """The labels as references: padding in the place of EOS."""
    return labels.masked_fill(labels == EOS, IGNORED)
