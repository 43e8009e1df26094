"""From cross-entropy to expected BLEU during training: the paper's recipe as a callback."""

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from bleugrad.arguments import check_nonnegative
from bleugrad.hf.loss import BLEULoss


class BLEUSchedule(TrainerCallback):
    """Sets the share of BLEU in the loss at every step: 0 at first, 1 later.

    The share depends on the trainer's state alone, so a resumed run continues where it stopped.

    Args:
        loss: the trainer's ``compute_loss_func``.
        after_steps: optimiser steps of cross-entropy alone.
        after_epochs: the same in epochs, fractions allowed.
        over: length of the linear ramp from 0 to 1, in the unit of the start; 0 switches at once.
        share: a function of ``(step, epoch)`` that returns the share, instead of the other arguments.

    Example::

        BLEUSchedule(loss, after_epochs=10)  # pre-train, then switch: the paper's recipe
        BLEUSchedule(loss, after_steps=1000, over=4000)  # blend
        BLEUSchedule(loss, share=lambda step, epoch: 0.5)
    """

    def __init__(
        self,
        loss: BLEULoss,
        *,
        after_steps: float | None = None,
        after_epochs: float | None = None,
        over: float = 0,
        share: Callable[[int, float], float] | None = None,
    ) -> None:
        given = [after_steps, after_epochs, share]
        if sum(value is not None for value in given) != 1:
            raise ValueError("after_steps, after_epochs, share: expected exactly one of them")
        self.loss = loss
        self.in_epochs = after_epochs is not None
        start = after_epochs if self.in_epochs else after_steps
        self.start = check_nonnegative("after_epochs" if self.in_epochs else "after_steps", start or 0)
        self.over = check_nonnegative("over", over)
        self.share = share

    def at(self, step: int, epoch: float) -> float:
        """The share at a step and epoch."""
        if self.share is not None:
            return self.share(step, epoch)
        done = (epoch if self.in_epochs else step) - self.start
        if self.over == 0:
            return float(done >= 0)
        return min(max(done / self.over, 0.0), 1.0)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Set the share of this step."""
        self.loss.bleu_weight = self.at(state.global_step, state.epoch or 0.0)

    on_train_begin = on_step_begin
