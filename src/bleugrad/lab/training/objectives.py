"""Objectives of every model: from a batch to the loss; for autoregressive models, with every feeding of the decoder."""

import math
from typing import TYPE_CHECKING, Any, Optional, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bleugrad import (
    CandidateBLEULoss,
    ExpectedBLEULoss,
    FedSamplesBLEULoss,
    MinimumRiskLoss,
    ReinforceLoss,
    UnbiasedBLEULoss,
)
from bleugrad.lab.data.batches import IGNORED, Batch, ReferenceIds, decoder_inputs
from bleugrad.lab.models.feeding import DecoderOutput, feed, sample, token_log_probs
from bleugrad.lab.models.one_pass import FrameModel, RowModel
from bleugrad.lab.models.protocol import AutoregressiveModel, Decoding, Memory, TranslationModel
from bleugrad.lab.models.search.soft_beam import soft_beam
from bleugrad.lab.models.search.strategies import beam
from bleugrad.lab.special_ids import EOS, PAD
from bleugrad.lab.training.config import EXPECTED, OWN_TOKENS, SOFT_BEAM, ObjectiveConfig
from bleugrad.lab.training.objective import Objective, expected_loss, order_weights
from bleugrad.lab.training.one_pass import FramesObjective, RowsObjective
from bleugrad.lab.training.ranking import ranking_loss
from bleugrad.lab.training.sparse_rows import SparseRows

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

CERTAIN = 50.0
"""Logit of a certain token; the logits of all others are the negative of it."""


def build_objective(
    model: TranslationModel,
    config: ObjectiveConfig,
    group: Optional["ProcessGroup"] = None,
    word_start: Tensor | None = None,
) -> Objective:
    """The objective of the settings.

    ``group`` shares each batch. ``word_start`` (V,) marks tokens that open a word, for ``units = "words"``; None if
    each token is a word.
    """
    word_start = word_start if config.units == "words" or config.recommended else None
    if isinstance(model, RowModel):
        return RowsObjective(model, config, group, word_start)
    if isinstance(model, FrameModel):
        return FramesObjective(model, config, group)
    if not isinstance(model, AutoregressiveModel):
        raise TypeError(f"model is a {type(model).__name__}, which has no objective")
    if config.name == "ce":
        return CrossEntropy(model, config, group)
    if config.name in ("reinforce", "mrt") and config.feeding == "sample":
        return SampleObjective(model, config, group)
    if config.name == "candidates":
        return CandidateObjective(model, config, group, word_start)
    if config.feeding == SOFT_BEAM:
        return SoftBeamObjective(model, config, group, word_start)
    if config.input_gradient:
        return FedSamplesObjective(model, config, group, word_start)
    return RowObjective(model, config, group, word_start)


class FedObjective(Objective):
    """An objective of an autoregressive model, whose decoder is fed the reference or its own tokens."""

    model: Decoding

    def __init__(self, model: Decoding, config: ObjectiveConfig, group: Optional["ProcessGroup"]) -> None:
        super().__init__(model, config, group)
        self.own_tokens = config.feeding in OWN_TOKENS

    def feed(self, memory: Memory, inputs: Tensor, feeding: str, own_probability: float = 0.0) -> DecoderOutput:
        """Logits of the decoder; with its own tokens it has more positions than the longest reference."""
        config, own = self.config, feeding in OWN_TOKENS
        steps = self.longest(inputs.shape[1]) if own else None
        return feed(
            self.model,
            memory,
            inputs,
            feeding,  # type: ignore[arg-type]
            own_probability=own_probability,
            steps=steps,
            further=config.end_positions if own else 0,
            temperature=config.temperature,
        )

    def longest(self, positions: int) -> int:
        """Positions of a decoder with its own tokens, for those of the longest reference."""
        return math.ceil(self.config.length_factor * positions) + self.config.length_extra

    def mixed(self, loss: Tensor, fed: DecoderOutput | None, memory: Memory, batch: Batch) -> Tensor:
        """The loss plus weighted cross-entropy, which needs another decoder pass unless the reference was fed."""
        weight = self.config.cross_entropy_weight
        if weight == 0:
            return loss
        if fed is None or self.own_tokens:
            fed = self.feed(memory, batch.inputs(), "reference")
        return loss + weight * self.cross_entropy(fed.logits, batch.labels)


class CrossEntropy(FedObjective):
    """Cross-entropy of the reference, with the reference or a mixture (scheduled sampling) as decoder inputs."""

    def forward(self, batch: Batch, own_probability: float = 0.0) -> Tensor:
        """The loss."""
        memory = self.model.encode(batch.source, batch.source_lengths)
        fed = self.feed(memory, batch.inputs(), self.config.feeding, own_probability)
        return self.cross_entropy(fed.logits, batch.labels)


class RowObjective(FedObjective):
    """A loss of the distribution at each position.

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

    def __init__(
        self, model: Decoding, config: ObjectiveConfig, group: Optional["ProcessGroup"], word_start: Tensor | None
    ) -> None:
        super().__init__(model, config, group)
        self.random_length = self.own_tokens or config.length == "random" or config.recommended
        eos_id = EOS if self.random_length else None
        self.expects = config.name in EXPECTED
        self.in_one_pass = self.expects and not self.own_tokens
        self.loss: nn.Module
        if config.recommended:
            self.loss = ExpectedBLEULoss.recommended(
                eos_id=EOS,
                max_order=config.max_order,
                smoothing=config.smoothing,
                process_group=group,
                word_start=word_start,
            )
        elif self.expects:
            self.loss = expected_loss(
                config,
                group,
                word_start,
                eos_id,
                end_positions=config.end_positions if self.random_length and not self.own_tokens else 0,
                cross_entropy_weight=config.cross_entropy_weight if self.in_one_pass else 0.0,
            )
        else:
            self.loss = sampled_loss(config, eos_id)

    def forward(self, batch: Batch, own_probability: float = 0.0) -> Tensor:
        """The loss."""
        memory = self.model.encode(batch.source, batch.source_lengths)
        fed = self.feed(memory, batch.inputs(), self.config.feeding, own_probability)
        if self.likelihood_only:
            return self.cross_entropy(fed.logits, batch.labels)
        if self.own_tokens:
            references = batch.labels if batch.references is None else batch.references
            loss: Tensor = self.loss(fed.logits, references=references, mask=fed.mask)
        elif self.random_length:
            loss = self.loss(fed.logits, batch.labels, references=batch.references)
        else:
            loss = self._of_given_length(fed.logits, batch)
        if not self.expects:
            loss = self.mean(loss, len(batch))
        return loss if self.in_one_pass else self.mixed(loss, fed, memory, batch)  # in one pass it is mixed already

    def _of_given_length(self, logits: Tensor, batch: Batch) -> Tensor:
        further = self.config.end_positions
        references: Tensor | ReferenceIds | None = _ended_references(batch, further)
        if not further:
            loss: Tensor = self.loss(logits, batch.labels, references=references)
            return loss
        labels = F.pad(batch.labels, (0, further), value=IGNORED)
        labelled = labels != IGNORED
        position = torch.arange(labels.shape[1], device=labels.device)
        lengths = labelled.sum(1, keepdim=True)
        after = (lengths <= position) & (position < lengths + further)
        certain = logits.new_full((logits.shape[-1],), -CERTAIN)
        certain[PAD] = CERTAIN
        logits = F.pad(logits, (0, 0, 0, further)).where(~after.unsqueeze(-1), certain / self.config.sharpness)
        if references is None:
            references = labels.masked_fill(after, PAD)
        loss = self.loss(logits, labels, references=references, mask=labelled | after)
        return loss


class SampleObjective(FedObjective):
    """REINFORCE or minimum risk of whole sequences that the decoder samples."""

    def __init__(self, model: Decoding, config: ObjectiveConfig, group: Optional["ProcessGroup"]) -> None:
        super().__init__(model, config, group)
        self.loss = cast("ReinforceLoss | MinimumRiskLoss", sampled_loss(config, EOS))

    def forward(self, batch: Batch, own_probability: float = 0.0) -> Tensor:
        """The loss."""
        memory = self.model.encode(batch.source, batch.source_lengths)
        sentences, samples = len(batch), self.config.samples
        steps, temperature = self.longest(batch.labels.shape[1]), self.config.temperature
        drawn = sample(self.model, memory, sentences * samples, steps, temperature=temperature)
        shape = (sentences, samples, drawn.tokens.shape[1])
        tokens, log_probs, mask = (one.view(shape) for one in (drawn.tokens, drawn.log_probs, drawn.mask))
        references: Tensor | ReferenceIds = batch.labels if batch.references is None else batch.references
        if isinstance(self.loss, MinimumRiskLoss):
            total = self.loss.from_samples(tokens, log_probs, references, mask=mask)
        else:
            total = self.loss.from_samples(tokens, log_probs, references, mask=mask, greedy=self._greedy(memory, batch))
        return self.mixed(self.mean(total, sentences), None, memory, batch)

    def _greedy(self, memory: Memory, batch: Batch) -> Tensor | None:
        """The decoder's greedy output, if it is the baseline."""
        if self.config.baseline != "greedy":
            return None
        with torch.no_grad():
            fed = self.feed(memory, batch.inputs(), "greedy")
        return fed.tokens.masked_fill(~fed.mask, IGNORED)


class CandidateObjective(FedObjective):
    """A loss of the candidates of a beam search, which the decoder is fed.

    ``candidate_loss`` is "expected" for exact expected BLEU of the rows of each candidate, see
    :class:`bleugrad.CandidateBLEULoss`, or a baseline that scores the candidates themselves: "risk" for
    :class:`bleugrad.MinimumRiskLoss`, "ranking" for :func:`bleugrad.lab.training.ranking.ranking_loss`.
    """

    def __init__(
        self, model: Decoding, config: ObjectiveConfig, group: Optional["ProcessGroup"], word_start: Tensor | None
    ) -> None:
        super().__init__(model, config, group)
        shared = candidate_options(config, word_start)
        self.loss: CandidateBLEULoss | MinimumRiskLoss | None = None
        if config.candidate_loss == "expected":
            shared |= {"sharpness": config.sharpness, "end_positions": config.end_positions}
            self.loss = CandidateBLEULoss(alpha=config.candidate_alpha, **shared)
        elif config.candidate_loss == "risk":
            self.loss = MinimumRiskLoss(alpha=config.alpha, **shared)

    def forward(self, batch: Batch, own_probability: float = 0.0) -> Tensor:
        """The loss."""
        candidates = self.search(batch)
        memory = self.model.encode(batch.source, batch.source_lengths)
        rows = self.model.project(self.model.decode(memory, decoder_inputs(candidates.flatten(0, 1))))
        references: Tensor | ReferenceIds = batch.labels if batch.references is None else batch.references
        if isinstance(self.loss, CandidateBLEULoss):
            loss = self.loss(rows, candidates, references)
        else:
            log_probs = token_log_probs(rows, candidates.flatten(0, 1)).view(candidates.shape)
            if self.loss is None:
                settings = {"max_order": self.config.max_order, "smoothing": self.config.smoothing, "eos_id": EOS}
                mask = candidates != IGNORED
                loss = ranking_loss(candidates, log_probs, references, mask=mask, **settings).sum()
            else:
                loss = self.loss.from_samples(candidates, log_probs, references)
        return self.mixed(self.mean(loss, len(batch)), None, memory, batch)

    def search(self, batch: Batch) -> Tensor:
        """(B, S, T), the candidates with EOS, the best first; all padding where the search found fewer."""
        width, maximum = self.config.candidates, self.longest(batch.labels.shape[1])
        found = beam(self.model, batch.source, batch.source_lengths, width, maximum, n_best=width)
        longest = max((len(one.tokens) + 1 for best in found for one in best), default=1)
        candidates = torch.full((len(batch), width, longest), IGNORED)
        for row, best in zip(candidates, found, strict=True):
            for place, one in zip(row, best, strict=False):
                place[: len(one.tokens) + 1] = torch.tensor([*one.tokens, EOS])
        return candidates.to(batch.labels.device)


class SoftBeamObjective(FedObjective):
    """Expected BLEU of the members of a relaxed beam search, weighted by their probabilities.

    The gradient goes through the distributions of each member and through the weights, and with ``input_gradient``
    through the mixtures that the decoder was fed. See :func:`bleugrad.lab.models.search.soft_beam.soft_beam`.
    """

    def __init__(
        self, model: Decoding, config: ObjectiveConfig, group: Optional["ProcessGroup"], word_start: Tensor | None
    ) -> None:
        super().__init__(model, config, group)
        self.loss = CandidateBLEULoss(
            alpha=config.candidate_alpha, **row_options(config), **candidate_options(config, word_start)
        )

    def forward(self, batch: Batch, own_probability: float = 0.0) -> Tensor:
        """The loss."""
        memory, config = self.model.encode(batch.source, batch.source_lengths), self.config
        maximum = self.longest(batch.labels.shape[1])
        found = soft_beam(
            self.model,
            memory,
            config.candidates,
            maximum,
            self.tau,
            config.beam_tokens,
            rows=config.beam_rows,
            sharpness=config.sharpness,
            input_gradient=config.input_gradient,
        )
        rows = SparseRows(found.tokens.flatten(0, 1), found.probs.flatten(0, 1), self.model.target_size)
        references: Tensor | ReferenceIds = batch.labels if batch.references is None else batch.references
        loss = self.loss.from_log_probs(rows, found.scores, references, mask=found.mask)
        return self.mixed(self.mean(loss, len(batch)), None, memory, batch)


class FedSamplesObjective(FedObjective):
    """Expected BLEU of the rows of samples that the decoder is fed, with the gradient through their choice.

    See :class:`bleugrad.FedSamplesBLEULoss`.
    """

    def __init__(
        self, model: Decoding, config: ObjectiveConfig, group: Optional["ProcessGroup"], word_start: Tensor | None
    ) -> None:
        super().__init__(model, config, group)
        self.loss = FedSamplesBLEULoss(
            sharpness=config.sharpness, **row_options(config), **candidate_options(config, word_start)
        )

    def forward(self, batch: Batch, own_probability: float = 0.0) -> Tensor:
        """The loss."""
        memory, samples = self.model.encode(batch.source, batch.source_lengths), self.config.samples
        inputs = batch.inputs().repeat_interleave(samples, 0)
        fed = feed(self.model, memory, inputs, "sample", steps=self.longest(inputs.shape[1]))
        tokens = fed.tokens.masked_fill(~fed.mask, IGNORED).view(len(batch), samples, fed.tokens.shape[1])
        references: Tensor | ReferenceIds = batch.labels if batch.references is None else batch.references
        loss = self.loss(fed.logits, tokens, references)
        return self.mixed(self.mean(loss, len(batch)), None, memory, batch)


def row_options(config: ObjectiveConfig) -> dict[str, Any]:
    """Options of losses that score the rows of several sequences per sentence."""
    return {"method": config.name, "weights": order_weights(config), "end_positions": config.end_positions}


def candidate_options(config: ObjectiveConfig, word_start: Tensor | None) -> dict[str, Any]:
    """Options of all losses of candidates."""
    shared: dict[str, Any] = {"max_order": config.max_order, "smoothing": config.smoothing, "eos_id": EOS}
    return shared | {"word_start": word_start, "reduction": "sum"}


def sampled_loss(config: ObjectiveConfig, eos_id: int | None) -> ReinforceLoss | MinimumRiskLoss | UnbiasedBLEULoss:
    """The sampled loss of the settings, summed over sentences."""
    shared = {"max_order": config.max_order, "smoothing": config.smoothing, "eos_id": eos_id, "reduction": "sum"}
    if config.name == "reinforce":
        return ReinforceLoss(samples=config.samples, baseline=config.baseline, **shared)  # type: ignore[arg-type]
    if config.name == "unbiased":
        return UnbiasedBLEULoss(samples=config.samples, **shared)  # type: ignore[arg-type]
    with_reference = config.include_reference and config.feeding not in OWN_TOKENS
    risk = {"alpha": config.alpha, "include_reference": with_reference}
    return MinimumRiskLoss(samples=config.samples, **risk, **shared)  # type: ignore[arg-type]


def _ended_references(batch: Batch, further: int) -> list[list[list[int]]] | None:
    """The references with EOS and PAD at the end, as the labels; None if the labels are the only reference."""
    if batch.references is None:
        return None
    end = [EOS] + [PAD] * further
    return [[reference + end for reference in references] for references in batch.references]
