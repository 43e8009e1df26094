"""Objectives of samples: of each position, and of whole sequences."""

import torch
from torch import Tensor

from bleugrad import MinimumRiskLoss, ReinforceLoss, UnbiasedBLEULoss
from bleugrad.lab.data.batches import IGNORED, Batch
from bleugrad.lab.models.feeding import sample
from bleugrad.lab.special_ids import EOS
from bleugrad.lab.training.objectives.base import FedObjective, references_of, score_options
from bleugrad.lab.training.objectives.config import MinimumRiskConfig, ReinforceConfig, SampledConfig
from bleugrad.lab.training.objectives.rows import ended_references


class SampledTokens(FedObjective):
    """REINFORCE, minimum risk or unbiased BLEU of tokens that are sampled at each position of a decoder.

    When the decoder is fed the reference, EOS counts as a word. When it is fed its own tokens, EOS ends the sentence.
    """

    config: SampledConfig

    def make_loss(self, word_start: Tensor | None) -> ReinforceLoss | MinimumRiskLoss | UnbiasedBLEULoss:
        """Summed over sentences."""
        config, own = self.config, self.config.own_tokens
        shared = score_options(config) | {"samples": config.samples, "eos_id": EOS if own else None}
        if isinstance(config, ReinforceConfig):
            return ReinforceLoss(baseline=config.baseline, **shared)
        if isinstance(config, MinimumRiskConfig):
            with_reference = config.include_reference and not own
            return MinimumRiskLoss(alpha=config.alpha, include_reference=with_reference, **shared)
        return UnbiasedBLEULoss(**shared)

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        memory = self.model.encode(batch.source, batch.source_lengths)
        fed = self.feed(memory, batch, self.config.feeding)
        if self.config.own_tokens:
            loss = self.loss(fed.logits, references=references_of(batch), mask=fed.mask)
        else:
            loss = self.loss(fed.logits, batch.labels, references=ended_references(batch))
        return self.mixed(self.mean(loss, len(batch)), memory, batch, None if self.config.own_tokens else fed)


class SampledSequences(SampledTokens):
    """REINFORCE or minimum risk of whole sequences that the decoder samples."""

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        memory, samples = self.model.encode(batch.source, batch.source_lengths), self.config.samples
        drawn = sample(
            self.model, memory, len(batch) * samples, self.longest(batch), temperature=self.config.temperature
        )
        shape = (len(batch), samples, drawn.tokens.shape[1])
        tokens, log_probs, mask = (one.view(shape) for one in (drawn.tokens, drawn.log_probs, drawn.mask))
        more = {}
        if isinstance(self.config, ReinforceConfig) and self.config.baseline == "greedy":
            with torch.no_grad():
                fed = self.feed(memory, batch, "greedy")
            more["greedy"] = fed.tokens.masked_fill(~fed.mask, IGNORED)
        total = self.loss.from_samples(tokens, log_probs, references_of(batch), mask=mask, **more)
        return self.mixed(self.mean(total, len(batch)), memory, batch)
