"""Counts of labels and sentences over the micro-batches and processes of a step."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

IGNORED = -100
"""The label that transformers ignores."""

if TYPE_CHECKING:
    from transformers import Trainer
else:
    Trainer = object


def processes() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def mean_over_processes(values: Tensor) -> Tensor:
    """The mean over all processes, without a gradient."""
    if processes() == 1:
        return values
    summed = values.clone()
    dist.all_reduce(summed)
    return summed / processes()


def predicted_labels(labels: Tensor, causal: bool) -> Tensor:
    """The labels that some position predicts: a causal model does not predict the first one."""
    return labels[:, 1:] if causal else labels


class SentenceCount(int):
    """``num_items_in_batch`` of a trainer that counts sentences."""


class SentenceMean(Trainer):
    """Mixin of a trainer that counts sentences instead of labels, for ``BLEULoss(weighting="sentences")``.

    The loss of a step is then the plain mean over its sentences, for any number and sizes of micro-batches and
    processes. Put it before the trainer::

        class SentenceTrainer(SentenceMean, Seq2SeqTrainer):
            pass
    """

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """The micro-batches of a step, and the number of their sentences in place of that of their labels."""
        batches, counted = super().get_batch_samples(epoch_iterator, num_batches, device)
        if not batches or "labels" not in batches[0]:
            return batches, counted
        model: Any = self.model
        causal = not model.config.is_encoder_decoder
        labels = [predicted_labels(batch["labels"], causal) for batch in batches]
        number = torch.stack([(some != IGNORED).any(1).sum().to(device) for some in labels]).sum()
        if self.args.average_tokens_across_devices and self.args.world_size > 1:
            number = self.accelerator.gather(number).sum()
        return batches, SentenceCount(number)
