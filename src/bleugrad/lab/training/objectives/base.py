"""Shared parts of the objectives: means over processes, cross-entropy, and the inputs of autoregressive decoders.

The loss of each process is scaled so that the mean over processes, of values and of gradients, equals that of one
process with the whole batch. Data parallel training averages gradients.
"""

import math
from typing import TYPE_CHECKING, Any, Optional

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from bleugrad.lab.data.batches import IGNORED, Batch, ReferenceIds
from bleugrad.lab.models.feeding import DecoderOutput, feed
from bleugrad.lab.models.protocol import Decoding, Memory, TranslationModel
from bleugrad.lab.special_ids import EOS
from bleugrad.lab.training.objectives.config import (
    OWN_TOKENS,
    BLEUScore,
    Mixture,
    ObjectiveConfig,
    OwnLength,
    SoftBeamConfig,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Objective(nn.Module):
    """A model with its loss: ``objective(batch)``; the likelihood in the first epochs, if the settings say so.

    ``group`` shares each batch. ``word_start`` (V,) marks tokens that open a word, None if tokens are counted.
    """

    likelihood_only = False

    def __init__(
        self,
        model: TranslationModel,
        config: ObjectiveConfig,
        group: Optional["ProcessGroup"] = None,
        word_start: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.model, self.config = model, config
        self.group, self.processes = group, 1 if group is None else group.size()
        self.loss = self.make_loss(word_start)

    def make_loss(self, word_start: Tensor | None) -> Any:
        """The loss of the library; None if there is none."""

    def begin_epoch(self, epoch: int, done: float) -> None:
        """Set what depends on the epoch; ``done`` is 0 in the first epoch and 1 in the last."""
        self.likelihood_only = epoch <= getattr(self.config, "likelihood_epochs", 0)

    def mean(self, total: Tensor, number: Tensor | int) -> Tensor:
        """The part of this process of a mean over all processes: ``total`` divided by the sum of ``number``."""
        everyone = torch.as_tensor(number, device=total.device)
        if self.group is not None:
            everyone = everyone.clone()
            dist.all_reduce(everyone, group=self.group)
        return total * self.processes / everyone.clamp(min=1)

    def cross_entropy(self, logits: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """Mean over tokens, in float32."""
        with torch.autocast(logits.device.type, enabled=False):
            rows = logits.flatten(0, 1).float()
            total = F.cross_entropy(
                rows, labels.flatten(), ignore_index=IGNORED, reduction="sum", label_smoothing=label_smoothing
            )
        return self.mean(total, (labels != IGNORED).sum())


class FedObjective(Objective):
    """An objective of an autoregressive model, whose decoder is fed the reference or its own tokens."""

    model: Decoding
    own_probability = 0.0  # share of own tokens in a mixture

    def begin_epoch(self, epoch: int, done: float) -> None:
        """Set the share of own tokens in a mixture, which is linear from the first to the last epoch."""
        super().begin_epoch(epoch, done)
        if isinstance(self.config, Mixture):
            first, last = self.config.own_first, self.config.own_last
            self.own_probability = first + done * (last - first)

    def feed(self, memory: Memory, batch: Batch, feeding: str = "reference") -> DecoderOutput:
        """Logits of the decoder; with its own tokens it has more positions than the longest reference."""
        config, inputs, own = self.config, batch.inputs(), {}
        if feeding in OWN_TOKENS:
            own = {"steps": self.longest(batch), "further": getattr(config, "end_positions", 0)}
        temperature, share = getattr(config, "temperature", 1.0), self.own_probability
        return feed(self.model, memory, inputs, feeding, own_probability=share, temperature=temperature, **own)  # type: ignore[arg-type]

    def longest(self, batch: Batch) -> int:
        """Positions of a decoder with its own tokens."""
        assert isinstance(self.config, OwnLength)
        return math.ceil(self.config.length_factor * batch.labels.shape[1]) + self.config.length_extra

    def mixed(self, loss: Tensor, memory: Memory, batch: Batch, fed: DecoderOutput | None = None) -> Tensor:
        """The loss plus weighted cross-entropy; ``fed`` if the decoder was not fed its own tokens, else fed again."""
        assert isinstance(self.config, BLEUScore)
        weight = self.config.cross_entropy_weight
        if weight == 0:
            return loss
        logits = (self.feed(memory, batch) if fed is None else fed).logits
        return loss + weight * self.cross_entropy(logits, batch.labels)


def references_of(batch: Batch) -> Tensor | ReferenceIds:
    """The references, or the labels if they are the only ones."""
    return batch.labels if batch.references is None else batch.references


def score_options(config: BLEUScore) -> dict[str, Any]:
    """Options of all losses of several sequences per sentence, whose values are summed."""
    return {"max_order": config.max_order, "smoothing": config.smoothing, "eos_id": EOS, "reduction": "sum"}


def row_options(config: SoftBeamConfig) -> dict[str, Any]:
    """Options of losses that score the rows of several sequences per sentence."""
    weights = order_weights(config.method, config.max_order)
    rows = {"method": config.method, "weights": weights, "end_positions": config.end_positions}
    return score_options(config) | rows


def order_weights(method: str, max_order: int) -> list[float] | None:
    """The weights of the orders: uniform, or only the last one, as in the published form of "clipped_mean"."""
    return [0.0] * (max_order - 1) + [1.0] if method == "clipped_mean" else None
