"""The number of words token by token."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import run
from bleugrad.backends.dispatch import Outputs


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.word_counts`."""
    steps, batch = inputs[0].shape
    probs = inputs[0].new_empty(batch, steps + 1)
    return ((probs,), None) if _run("word_counts", inputs, probs) else None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``opening``, ``alive`` and ``stop``, None for inputs that are None."""
    opening, _, alive, stop = inputs
    found = tuple(None if of is None else of.new_empty(of.shape) for of in (opening, alive, stop))
    return found if _run("word_counts_backward", inputs, grads[0], *found) else None


def _run(name: str, inputs: Any, *rest: Tensor | None) -> bool:
    (steps, batch), size = inputs[0].shape, inputs[0].numel()
    return size > 0 and run(name, (steps, batch), *inputs, *rest, parts=batch, work=steps * size)
