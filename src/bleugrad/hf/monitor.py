"""Expected BLEU, cross-entropy and length in the trainer's log, and an early stop if the length goes wrong."""

import warnings
from typing import Any

from transformers import TrainerCallback

from bleugrad.hf.loss import BLEULoss

RATIOS = ("length_ratio", "eval_length_ratio")


class BLEUMonitor(TrainerCallback):
    """Adds ``expected_bleu``, ``cross_entropy`` and ``length_ratio`` to each log entry of the training loss.

    ``length_ratio`` is the expected length of the hypothesis over the length of the labels. It is computed under
    teacher forcing, so it is at most slightly above 1: a ratio that falls means that the model learns to stop early.
    Outputs that grow too long show in ``eval_length_ratio``, which :class:`bleugrad.hf.BLEUMetrics` computes from
    generated text.

    :class:`bleugrad.hf.BLEULoss` adds a monitor to its trainer. Pass one yourself to stop training::

        callbacks = [BLEUMonitor(loss, stop_outside=(0.7, 1.3))]

    Args:
        loss: the trainer's ``compute_loss_func``.
        stop_outside: smallest and largest ``length_ratio`` and ``eval_length_ratio``; training stops outside of them.
    """

    def __init__(self, loss: BLEULoss, *, stop_outside: tuple[float, float] | None = None) -> None:
        if stop_outside is not None and not 0 <= stop_outside[0] < stop_outside[1]:
            raise ValueError(f"stop_outside is {stop_outside}; expected two numbers, such as (0.7, 1.3)")
        self.loss = loss
        self.stop_outside = stop_outside

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Complete the entry, and stop training if a length ratio is out of range."""
        if logs is None:
            return
        if "loss" in logs:
            found = self.loss.measurements()
            logs.update(found)
            state.log_history[-1].update(found)
        if self.stop_outside is None:
            return
        low, high = self.stop_outside
        for name in RATIOS:
            if name in logs and not low <= logs[name] <= high:
                warnings.warn(f"{name} is {logs[name]:.2f}, outside of {low} to {high}: training stops", stacklevel=2)
                control.should_training_stop = True


def monitor_first(trainer: Any, loss: BLEULoss) -> None:
    """Make the monitor of the loss the trainer's first callback, so that all reporters see its values."""
    callbacks = trainer.callback_handler.callbacks
    given = [one for one in callbacks if isinstance(one, BLEUMonitor) and one.loss is loss]
    for one in given:
        callbacks.remove(one)
    callbacks[:0] = given or [BLEUMonitor(loss)]
