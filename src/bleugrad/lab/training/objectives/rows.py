"""Objectives of the distributions at the positions of one sequence per sentence: cross-entropy and expected BLEU."""

from typing import TYPE_CHECKING, Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from bleugrad import ExpectedBLEULoss
from bleugrad.lab.data.batches import IGNORED, Batch, ReferenceIds
from bleugrad.lab.models.feeding import token_log_probs
from bleugrad.lab.special_ids import EOS, PAD
from bleugrad.lab.training.objectives.base import FedObjective, order_weights, references_of
from bleugrad.lab.training.objectives.config import CrossEntropyConfig, ExpectedConfig, RecommendedConfig
from bleugrad.losses.recipe import adaptive_share

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

CERTAIN = 50.0
"""Logit of a certain token; the logits of all others are the negative of it."""


class CrossEntropy(FedObjective):
    """Cross-entropy of the reference, with the reference or a mixture (scheduled sampling) as decoder inputs."""

    config: CrossEntropyConfig

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        memory = self.model.encode(batch.source, batch.source_lengths)
        logits = self.feed(memory, batch, self.config.feeding).logits
        return self.cross_entropy(logits, batch.labels, self.config.label_smoothing)


class ExpectedBLEU(FedObjective):
    """Expected BLEU of the rows of the decoder.

    When the decoder is fed the reference, it has one position per token of the reference, EOS included.

    * ``length = "given"``: EOS counts as a word. A word in the middle is part of ten n-grams of up to four words, but
      EOS of four only, so the end of the sentence has a lower weight. ``end_positions`` adds as many positions after
      EOS, with PAD for certain, to the decoder and to the reference, and so evens out the weights. An EOS before its
      place costs one word only, so translations become short.
    * ``length = "random"``: EOS ends the sentence wherever it is likely, and the rest of the reference is lost. A
      sentence that does not end in time has ``end_positions`` more words, which match nothing.

    When the decoder is fed its own tokens, its length is random, and references have no EOS. ``end_positions`` adds
    positions after its own EOS, which show the effect of a later end.

    Expected matches are linear in each row, so training makes every row certain, and beam search finds no alternatives.
    With a ``sharpness`` above 1 the loss scores sharper rows, and the model itself can stay less certain.
    """

    config: ExpectedConfig | RecommendedConfig

    def make_loss(self, word_start: Tensor | None) -> ExpectedBLEULoss:
        """Its cross-entropy is added in the same pass, unless the decoder is fed its own tokens."""
        config, own = self.config, self.config.own_tokens
        weight = 0.0 if own else config.cross_entropy_weight
        further = config.end_positions if config.random_length and not own else 0
        eos_id = EOS if config.random_length else None
        return expected_loss(config, self.group, word_start, eos_id, end_positions=further, cross_entropy_weight=weight)

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        memory = self.model.encode(batch.source, batch.source_lengths)
        fed = self.feed(memory, batch, self.config.feeding)
        if self.likelihood_only:
            return self.cross_entropy(fed.logits, batch.labels)
        if self.config.own_tokens:
            return self.mixed(self.loss(fed.logits, references=references_of(batch), mask=fed.mask), memory, batch)
        if isinstance(self.config, ExpectedConfig) and self.config.length == "given":
            return self._of_given_length(fed.logits, batch, self.config.end_positions)
        loss: Tensor = self.loss(fed.logits, batch.labels, references=batch.references)
        return loss

    def _of_given_length(self, logits: Tensor, batch: Batch, further: int) -> Tensor:
        references: Tensor | ReferenceIds | None = ended_references(batch, further)
        labels = F.pad(batch.labels, (0, further), value=IGNORED)
        counted = labels != IGNORED
        if further:
            position = torch.arange(labels.shape[1], device=labels.device)
            lengths = counted.sum(1, keepdim=True)
            after = (lengths <= position) & (position < lengths + further)
            certain = logits.new_full((logits.shape[-1],), -CERTAIN)
            certain[PAD] = CERTAIN
            logits = F.pad(logits, (0, 0, 0, further)).where(~after.unsqueeze(-1), certain / self.config.sharpness)
            references = labels.masked_fill(after, PAD) if references is None else references
            counted = counted | after
        loss: Tensor = self.loss(logits, labels, references=references, mask=counted)
        return loss


class RecommendedOwnTokens(FedObjective):
    """The recommended recipe of a decoder that is fed its own greedy tokens.

    Cross-entropy, and the share of BLEU that depends on it, are those of a decoder that is fed the reference. Expected
    BLEU is that of the own tokens. The decoder continues past its own end, to that of the reference and some positions
    more, so that the loss knows what a later end is worth.
    """

    config: RecommendedConfig

    def make_loss(self, word_start: Tensor | None) -> ExpectedBLEULoss:
        """The part of BLEU."""
        changed = {"end_positions": 0, "cross_entropy_weight": 0.0, "label_smoothing": 0.0, "adaptive": False}
        return expected_loss(self.config, self.group, word_start, EOS, **changed)

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        memory, labelled = self.model.encode(batch.source, batch.source_lengths), batch.labels != IGNORED
        reference, own = self.feed(memory, batch).logits, self.feed(memory, batch, self.config.feeding)
        log_probs = token_log_probs(reference.detach(), batch.labels)
        share = adaptive_share(log_probs, labelled, self.config.level, self.loss.pool)
        bleu: Tensor = self.loss(own.logits, references=references_of(batch), mask=own.mask)
        cross_entropy = self.cross_entropy(reference, batch.labels, self.config.label_smoothing)
        return share * bleu + (1 - share) * self.config.cross_entropy_weight * cross_entropy


def ended_references(batch: Batch, further: int = 0) -> list[list[list[int]]] | None:
    """The references with EOS and PAD at the end, as the labels; None if the labels are the only reference."""
    if batch.references is None:
        return None
    end = [EOS] + [PAD] * further
    return [[reference + end for reference in references] for references in batch.references]


def expected_loss(
    config: ExpectedConfig | RecommendedConfig,
    group: Optional["ProcessGroup"],
    word_start: Tensor | None,
    eos_id: int | None,
    **changed: Any,
) -> ExpectedBLEULoss:
    """The loss of the settings, some of them ``changed``."""
    options = {
        "method": config.method,
        "weights": order_weights(config.method, config.max_order),
        "adaptive": config.adaptive,
        "process_group": group,
        "word_start": word_start,
        "eos_id": eos_id,
        "label_smoothing": getattr(config, "label_smoothing", 0.0),
    }
    names = ("max_order", "smoothing", "level", "sharpness", "end_positions", "cross_entropy_weight")
    return ExpectedBLEULoss(**{name: getattr(config, name) for name in names} | options | changed)
