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


class SentenceCount(int):
    """``num_items_in_batch`` of a trainer that counts sentences."""


class SentenceMean(Trainer):
    """Mixin of a trainer that counts sentences instead of labels.

    :class:`bleugrad.hf.BLEULoss` is then the plain mean over the sentences of a step, also of their mean
    cross-entropies, for any number and sizes of micro-batches and processes. The evaluation loss remains weighted by
    labels. Put it before the trainer::

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
        first = 0 if model.config.is_encoder_decoder else 1  # a causal model does not predict the first label
        sentences = [(batch["labels"][:, first:] != IGNORED).any(1).sum().to(device) for batch in batches]
        number = torch.stack(sentences).sum()
        if self.args.average_tokens_across_devices and self.args.world_size > 1:
            number = self.accelerator.gather(number).sum()
        return batches, SentenceCount(number)
