"""Callbacks of the trainer: the schedule from cross-entropy to expected BLEU, and values for the log."""

import warnings
from typing import Any

from transformers import TrainerCallback

from bleugrad.arguments import check_nonnegative
from bleugrad.hf.loss import BLEULoss


class LossCallback(TrainerCallback):
    """A callback that knows the loss, and looks at the settings of the trainer when training begins."""

    loss: BLEULoss

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_: Any) -> None:
        """Warn of settings of the trainer that have no effect, or an unwanted one."""
        loss, factor, data = self.loss, args.label_smoothing_factor, getattr(train_dataloader, "dataset", None)
        if factor not in (0, loss.label_smoothing):
            loss.report(
                f"label_smoothing_factor is {factor}, but trainers do not pass it to compute_loss_func; set it to 0 "
                f"and use BLEULoss(label_smoothing={factor})"
            )
        size = args.per_device_train_batch_size
        if loss.expectation.level == "corpus" and args.gradient_accumulation_steps > 1 and size < 16:
            loss.report(
                f"per_device_train_batch_size is {size} and the trainer accumulates gradients, so a corpus of {size} "
                "sentences is scored at a time; use a larger batch with less accumulation, or level='sentence'"
            )
        if args.remove_unused_columns and isinstance(data, list) and data and "references" in data[0]:
            loss.report("the trainer drops the column 'references' of the data; set remove_unused_columns=False")


class BLEUSchedule(LossCallback):
    """Sets the share of BLEU in the loss at every step: 0 at first, 1 later.

    The share depends on the trainer's state alone, so a resumed run continues where it stopped.

    Args:
        loss: the trainer's ``compute_loss_func``.
        after_steps: optimiser steps of cross-entropy alone.
        after_epochs: the same in epochs, fractions allowed, instead of ``after_steps``: the paper's recipe.
        over: length of the linear ramp from 0 to 1, in the unit of the start; 0 switches at once.
    """

    def __init__(
        self, loss: BLEULoss, *, after_steps: float | None = None, after_epochs: float | None = None, over: float = 0
    ) -> None:
        if (after_steps is None) == (after_epochs is None):
            raise ValueError("after_steps, after_epochs: expected exactly one of them")
        self.loss, self.in_epochs = loss, after_steps is None
        name, start = ("after_steps", after_steps) if after_epochs is None else ("after_epochs", after_epochs)
        self.start = check_nonnegative(name, start or 0)
        self.over = check_nonnegative("over", over)
        self.loss.bleu_weight = self.at(0, 0.0)

    def at(self, step: int, epoch: float) -> float:
        """The share at a step and epoch."""
        done = (epoch if self.in_epochs else step) - self.start
        return float(done >= 0) if self.over == 0 else min(max(done / self.over, 0.0), 1.0)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Set the share of this step."""
        self.loss.bleu_weight = self.at(state.global_step, state.epoch or 0.0)


class BLEUMonitor(LossCallback):
    """Adds ``expected_bleu``, its interval, ``cross_entropy`` and ``length_ratio`` to each entry of the training loss.

    ``length_ratio`` is the expected length of the hypothesis over the length of the labels, under teacher forcing. When
    it falls, the model learns to stop early; when it rises, the model does not stop in time.

    Callbacks see the values if they come after the monitor. Reporters of ``report_to`` come before it, unless they are
    added again: ``trainer.add_callback(trainer.pop_callback(TensorBoardCallback))``.

    Args:
        loss: the trainer's ``compute_loss_func``.
        stop_outside: smallest and largest ``length_ratio`` and ``eval_length_ratio``; training stops outside of them.
    """

    def __init__(self, loss: BLEULoss, *, stop_outside: tuple[float, float] | None = None) -> None:
        if stop_outside is not None and not 0 <= stop_outside[0] < stop_outside[1]:
            raise ValueError(f"stop_outside is {stop_outside}; expected two numbers, such as (0.7, 1.3)")
        self.loss, self.stop_outside = loss, stop_outside

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Complete the entry, and stop training if a length ratio is out of range."""
        logs = {} if logs is None else logs
        if "loss" in logs:
            found = self.loss.measurements()
            logs.update(found)
            state.log_history[-1].update(found)
        low, high = self.stop_outside or (-float("inf"), float("inf"))
        for name in ("length_ratio", "eval_length_ratio"):
            if name in logs and not low <= logs[name] <= high:
                warnings.warn(f"{name} is {logs[name]:.2f}, outside of {low} to {high}: training stops", stacklevel=2)
                control.should_training_stop = True
