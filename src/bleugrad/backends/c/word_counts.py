"""The number of words token by token."""

from typing import Any

from torch import Tensor

from bleugrad.backends.c.library import Problem, fields, library_for, make_problem
from bleugrad.backends.dispatch import Outputs

DIRECT_STEPS = 1024
"""Up to this many tokens of a fixed length O(T^2) time is less than that of transforms."""


class _Counts(Problem):
    _fields_ = fields("steps batch", "opening limits alive stop")


def forward(
    keep: bool, opening: Tensor, limits: Tensor, alive: Tensor | None, stop: Tensor | None
) -> tuple[Outputs, None] | None:
    """See :data:`bleugrad.backends.operations.word_counts`."""
    if (library := _library(opening, alive)) is None:
        return None
    steps, batch = opening.shape
    probs = opening.new_empty(batch, steps + 1)
    problem = make_problem(_Counts, opening.shape, opening, limits, alive, stop)
    library.run("word_counts", problem, steps * probs.numel(), probs)
    return (probs,), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...] | None:
    """The gradients of ``opening``, ``alive`` and ``stop``, None for inputs that are None."""
    opening, _, alive, stop = inputs
    if (library := _library(opening, alive)) is None:
        return None
    found = tuple(None if of is None else of.new_empty(of.shape) for of in (opening, alive, stop))
    work = opening.shape[0] * grads[0].numel()
    library.run("word_counts_backward", make_problem(_Counts, opening.shape, *inputs), work, grads[0], *found)
    return found


def _library(opening: Tensor, alive: Tensor | None) -> Any:
    direct = opening.numel() > 0 and (alive is not None or opening.shape[0] <= DIRECT_STEPS)
    return library_for(opening) if direct else None
