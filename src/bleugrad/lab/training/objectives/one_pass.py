"""Objectives of one-pass models: the likelihood of the reference, expected BLEU, or both."""

import torch
import torch.nn.functional as F
from torch import Tensor

from bleugrad import CTC, ExpectedBLEULoss, Graph
from bleugrad.lab.data.batches import IGNORED, Batch
from bleugrad.lab.models.graph import GraphModel
from bleugrad.lab.models.one_pass import BLANK, OnePassModel, places
from bleugrad.lab.models.search.largest import largest
from bleugrad.lab.special_ids import EOS
from bleugrad.lab.training.objectives.base import Objective
from bleugrad.lab.training.objectives.config import (
    CrossEntropyConfig,
    ExpectedConfig,
    RecommendedConfig,
)
from bleugrad.lab.training.objectives.glancing import best_frames, best_path, shown_symbols
from bleugrad.lab.training.objectives.rows import expected_loss
from bleugrad.outputs import path_log_probs

UNLIKELY = -1e4
"""Log-probability of a symbol that another one was shown instead of; -inf makes gradients NaN."""


class OnePassObjective(Objective):
    """An objective of a one-pass model, whose likelihood may be trained with glancing."""

    model: OnePassModel
    ratio = 0.0  # of glancing

    def begin_epoch(self, epoch: int, done: float) -> None:
        """Set the ratio of glancing, which is linear from the first to the last epoch."""
        super().begin_epoch(epoch, done)
        if isinstance(self.config, CrossEntropyConfig):
            first, last = self.config.glancing_first, self.config.glancing_last
            self.ratio = first + done * (last - first)

    def output(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
        """Logits (B, T, V), the number of positions (B,), and the symbols that were shown (B, T), or None."""
        encoded, shown = self.model.encode(batch.source, batch.source_lengths), None
        if self.ratio and self.model.training and len(batch):
            with torch.no_grad():
                hidden, lengths = self.model.decode(encoded)
                logits = self.model.project(hidden)
                assigned = self.assigned(logits, lengths, batch.labels)
                shown = shown_symbols(assigned, most_likely(logits, assigned >= 0), self.ratio)
        hidden, lengths = self.model.decode(encoded, shown)
        return self.model.project(hidden), lengths, shown

    def assigned(self, logits: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        """The symbol of the reference at each position (B, T), -1 where there is none."""
        raise NotImplementedError


class Positions(OnePassObjective):
    """The objective of a "nat" model: one distribution per position, and a random length by EOS.

    A model usually has more positions than the reference has tokens. Their label is EOS. Expected BLEU counts the words
    that they would add.
    """

    def make_loss(self, word_start: Tensor | None) -> ExpectedBLEULoss | None:
        """None for the likelihood."""
        if isinstance(self.config, ExpectedConfig | RecommendedConfig):
            return expected_loss(self.config, self.group, word_start, EOS)
        return None

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        logits, lengths, shown = self.output(batch)
        mask = places(lengths, logits.shape[1])
        labels = padded_with_eos(batch.labels, logits.shape[1])
        if self.loss is None or self.likelihood_only:
            smoothing = self.config.label_smoothing if isinstance(self.config, CrossEntropyConfig) else 0.0
            counted = mask if shown is None else mask & (shown < 0)
            return self.cross_entropy(logits, labels.masked_fill(~counted, IGNORED), smoothing)
        references = without_eos(batch.labels) if batch.references is None else batch.references
        loss: Tensor = self.loss(logits, labels, references=references, mask=mask)
        return loss

    def assigned(self, logits: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        """The labels, and EOS after them."""
        mask = places(lengths, logits.shape[1])
        return padded_with_eos(labels, logits.shape[1]).masked_fill(~mask, -1)


class Frames(OnePassObjective):
    """The objective of a "ctc" model: one distribution per frame; equal neighbours are merged and blanks removed."""

    def make_loss(self, word_start: Tensor | None) -> ExpectedBLEULoss | None:
        """None for the likelihood, which is also added here and not in the loss."""
        if isinstance(self.config, ExpectedConfig):
            return expected_loss(self.config, self.group, None, None, cross_entropy_weight=0.0)
        return None

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        logits, lengths, shown = self.output(batch)
        if self.loss is None or self.likelihood_only:
            return self.likelihood(logits, lengths, batch.labels, shown)
        frames = CTC(logits, blank_id=BLANK, lengths=lengths)
        loss: Tensor = self.loss(frames, without_eos(batch.labels), references=batch.references)
        weight = getattr(self.config, "cross_entropy_weight", 0.0)
        return loss + weight * self.likelihood(logits, lengths, batch.labels) if weight else loss

    def assigned(self, logits: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        """The symbols of the most likely alignment."""
        ids, numbers = spoken(labels)
        return best_frames(_log_softmax(logits), ids, lengths, numbers, BLANK)

    def likelihood(self, logits: Tensor, lengths: Tensor, labels: Tensor, shown: Tensor | None = None) -> Tensor:
        """The CTC loss per token of the reference, in float32; a reference that has no place in its frames counts 0.

        A frame whose symbol was ``shown`` has that symbol for certain.
        """
        ids, tokens = spoken(labels)
        log_probs = _log_softmax(logits)
        if shown is not None:
            certain = torch.full_like(log_probs, UNLIKELY).scatter(2, shown.clamp(min=0)[..., None], 0.0)
            log_probs = torch.where((shown >= 0)[..., None], certain, log_probs)
        total = log_probs.sum()  # of no sentences, which ctc_loss refuses
        if len(tokens):
            options = {"reduction": "sum", "zero_infinity": True}
            total = F.ctc_loss(log_probs.transpose(0, 1), ids, lengths, tokens, BLANK, **options)  # type: ignore[arg-type]
        return self.mean(total, tokens.sum())


class Vertices(OnePassObjective):
    """The objective of a "graph" model: tokens along a random path."""

    model: GraphModel

    def make_loss(self, word_start: Tensor | None) -> ExpectedBLEULoss | None:
        """None for the likelihood alone; a weighted one is that of :class:`bleugrad.Graph`."""
        if isinstance(self.config, ExpectedConfig):
            return expected_loss(self.config, self.group, None, None)
        return None

    def forward(self, batch: Batch) -> Tensor:
        """The loss."""
        encoded = self.model.encode(batch.source, batch.source_lengths)
        if self.loss is not None and not self.likelihood_only:
            loss: Tensor = self.loss(self.model.graph(encoded), without_eos(batch.labels), references=batch.references)
            return loss
        ids, numbers = spoken(batch.labels)
        shown = path = None
        if self.ratio and self.model.training and len(batch):
            with torch.no_grad():
                shown, path = self.glance(self.model.graph(encoded), ids, numbers)
        graph = self.model.graph(encoded, shown)
        assert graph.lengths is not None
        emissions, lengths = graph.emissions(ids), graph.lengths
        if shown is not None and path is not None:
            emissions = certain_emissions(emissions, shown >= 0, path)
        transitions = graph.transition_probs()
        log_probs = path_log_probs(emissions, transitions, lengths, numbers)
        unused = 0 * transitions.sum()  # without labels; a process waits for the gradient of every parameter
        return self.mean(unused - log_probs.masked_fill(log_probs == -torch.inf, 0).sum(), numbers.sum())

    def glance(self, graph: Graph, ids: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The symbols to show (B, T), and the vertices (B, R) of the most likely path of the reference."""
        assert graph.lengths is not None
        path = best_path(graph.emissions(ids), graph.transition_probs().log(), graph.lengths, numbers)
        assigned = ids.new_full((len(ids), graph.shape[1] + 1), -1)
        assigned = assigned.scatter(1, path.masked_fill(path < 0, graph.shape[1]), ids)[:, :-1]
        return shown_symbols(assigned, most_likely(graph.logits, assigned >= 0), self.ratio), path


def certain_emissions(emissions: Tensor, shown: Tensor, path: Tensor) -> Tensor:
    """Emissions (B, T, R) where some vertices were ``shown`` (B, T) the label that ``path`` (B, R) assigns to them.

    Such a vertex emits its label for certain, and this label has no other place.
    """
    given = shown.gather(1, path.clamp(min=0)) & (path >= 0)
    here = path[:, None] == torch.arange(emissions.shape[1], device=path.device)[:, None]
    others = shown[..., None] | given[:, None]
    return emissions.masked_fill(others, -torch.inf).masked_fill(here & given[:, None], 0)


def spoken(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The labels (B, R) without EOS, 0 in the place of it and of padding, and their number (B,)."""
    labels = without_eos(labels)
    return labels.masked_fill(labels == IGNORED, 0), (labels != IGNORED).sum(1)


def padded_with_eos(labels: Tensor, steps: int) -> Tensor:
    """The labels (B, R) of ``steps`` positions: EOS where there is none, and no more than there is place for."""
    labels = F.pad(labels, (0, steps - labels.shape[1]), value=IGNORED)  # a negative number cuts off
    return labels.masked_fill(labels == IGNORED, EOS)


def most_likely(logits: Tensor, wanted: Tensor) -> Tensor:
    """``logits.argmax(-1)`` of (B, T, V) where it is wanted (B, T), -1 elsewhere; ten times as fast in bfloat16."""
    found = torch.full(wanted.shape, -1, device=logits.device)
    found[wanted] = largest(logits[wanted], 1)[1][:, 0]
    return found


def _log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities in float32 or finer."""
    with torch.autocast(logits.device.type, enabled=False):
        return F.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)


def without_eos(labels: Tensor) -> Tensor:
    """The labels as references: padding in the place of EOS."""
    return labels.masked_fill(labels == EOS, IGNORED)
