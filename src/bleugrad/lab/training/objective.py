"""What all objectives share: means over processes, the cross-entropy, and the loss of expected BLEU.

The loss of each process is scaled so that the mean over processes, of values and of gradients, equals that of one
process with the whole batch. Data parallel training averages gradients.
"""

from typing import TYPE_CHECKING, Optional

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from bleugrad import ExpectedBLEULoss
from bleugrad.lab.data.batches import IGNORED
from bleugrad.lab.models.protocol import TranslationModel
from bleugrad.lab.training.config import ObjectiveConfig

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Objective(nn.Module):
    """A model with its loss: ``objective(batch, own_probability)``; the likelihood if ``likelihood_only``.

    ``tau`` is the sharpness of a soft beam.
    """

    def __init__(self, model: TranslationModel, config: ObjectiveConfig, group: Optional["ProcessGroup"]) -> None:
        super().__init__()
        self.model, self.config = model, config
        self.likelihood_only, self.tau = False, config.tau_first
        self.group, self.processes = group, 1 if group is None else group.size()

    def mean(self, total: Tensor, number: Tensor | int) -> Tensor:
        """The part of this process of a mean over all processes: ``total`` divided by the sum of ``number``."""
        everyone = torch.as_tensor(number, device=total.device)
        if self.group is not None:
            everyone = everyone.clone()
            dist.all_reduce(everyone, group=self.group)
        return total * self.processes / everyone.clamp(min=1)

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean over tokens, in float32; "ce" smooths the labels."""
        smoothing = self.config.label_smoothing if self.config.name == "ce" else 0.0
        with torch.autocast(logits.device.type, enabled=False):
            rows = logits.flatten(0, 1).float()
            total = F.cross_entropy(
                rows, labels.flatten(), ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing
            )
        return self.mean(total, (labels != IGNORED).sum())


def order_weights(config: ObjectiveConfig) -> list[float] | None:
    """The weights of the orders: uniform, or only the last one, as in the published form of "clipped_mean"."""
    return [0.0] * (config.max_order - 1) + [1.0] if config.name == "clipped_mean" else None


def expected_loss(
    config: ObjectiveConfig,
    group: Optional["ProcessGroup"],
    word_start: Tensor | None,
    eos_id: int | None,
    *,
    end_positions: int = 0,
    cross_entropy_weight: float = 0.0,
) -> ExpectedBLEULoss:
    """The loss of "bound", "exact" and "clipped_mean"."""
    return ExpectedBLEULoss(
        method=config.name,
        max_order=config.max_order,
        weights=order_weights(config),
        smoothing=config.smoothing,
        level=config.level,
        eos_id=eos_id,
        sharpness=config.sharpness,
        end_positions=end_positions,
        cross_entropy_weight=cross_entropy_weight,
        process_group=group,
        word_start=word_start,
    )
