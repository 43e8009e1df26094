"""How much of a step's batch each call of the loss holds: over accumulated micro-batches and over processes."""

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

IGNORED = -100
"""The label that marks what does not count, everywhere in transformers."""

if TYPE_CHECKING:
    from transformers import Trainer
else:
    Trainer = object


def process_group() -> "dist.ProcessGroup | None":
    """The group of all processes, or None where there is one process."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return None
    return dist.group.WORLD


def mean_over_processes(values: Tensor) -> Tensor:
    """The mean over all processes, without a gradient."""
    group = process_group()
    if group is None:
        return values
    summed = values.clone()
    dist.all_reduce(summed, group=group)
    return summed / dist.get_world_size(group)


def predicted_labels(labels: Tensor, causal: bool) -> Tensor:
    """The labels some position predicts: a causal model does not predict the first."""
    return labels[:, 1:] if causal else labels


class SentenceMean(Trainer):
    """Mixin of a trainer that counts sentences where it counts labels, for ``BLEULoss(weighting="sentences")``.

    A step's loss is then the plain mean over its sentences, whatever the number of micro-batches and processes and
    however unequal they are. Put it before the trainer::

        class SentenceTrainer(SentenceMean, Seq2SeqTrainer):
            pass
    """

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> Any:
        if not batch_samples or "labels" not in batch_samples[0]:
            return super()._get_num_items_in_batch(batch_samples, device)
        model: Any = self.model
        causal = not model.config.is_encoder_decoder
        number: Any = torch.zeros((), dtype=torch.long, device=device)
        for batch in batch_samples:
            number += (predicted_labels(batch["labels"], causal) != IGNORED).any(1).sum().to(device)
        if self.args.average_tokens_across_devices and self.args.world_size > 1:
            number = self.accelerator.gather(number).sum()
        number.counts_sentences = True
        return number
