"""The number of words, token by token."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from bleugrad.backends.devices import widest_float
from bleugrad.backends.dispatch import Outputs


def forward(
    keep: bool, opening: Tensor, limits: Tensor, alive: Tensor | None, stop: Tensor | None
) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.word_counts`. O(T^2) time per sentence."""
    lives, ends = _ending(opening, limits, alive, stop)
    parts = (row * ends[:, step, None] for step, row in enumerate(_reached(opening, lives)))
    counts = sum(parts, start=lives.new_zeros(()))
    return (counts.to(opening.dtype),), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...]:
    """The gradients of ``opening``, ``alive`` and ``stop``, None for inputs that are None."""
    opening, limits, alive, stop = inputs
    lives, ends = _ending(opening, limits, alive, stop)
    rows, grad = _reached(opening, lives), grads[0].to(lives.dtype)
    of_opening, of_alive, of_stop, back = map(torch.zeros_like, (opening, lives, ends, grad))
    for step in range(len(opening), -1, -1):
        of_stop[:, step] = (grad * rows[step]).sum(1)
        back = back + grad * ends[:, step, None]
        if step > 0:
            before, shifted = rows[step - 1], pad(back[:, 1:], (0, 1))
            opens, continues = _steps(opening, lives, step - 1)
            stays, moves = (before * back).sum(1), (before * shifted).sum(1)
            of_alive[step - 1] = moves if step == 1 else stays
            of_opening[step - 1] = 0 if step == 1 else moves - stays
            back = back * continues + shifted * opens
    return (of_opening, None, None) if alive is None else (of_opening, of_alive, of_stop)


def _ending(opening: Tensor, limits: Tensor, alive: Tensor | None, stop: Tensor | None) -> tuple[Tensor, Tensor]:
    """``alive`` and ``stop``; those of a fixed length, in float64, if there are none."""
    if alive is not None and stop is not None:
        return alive, stop
    ends = torch.arange(len(opening) + 1, device=limits.device) == limits[:, None]
    kind = widest_float(opening.device)
    return torch.ones_like(opening, dtype=kind), ends.to(kind)


def _reached(opening: Tensor, alive: Tensor) -> list[Tensor]:
    """The probabilities (B, words) of reaching each length, 0 to T tokens."""
    steps, batch = opening.shape
    rows = [pad(alive.new_ones(batch, 1), (0, steps))]
    for step in range(steps):
        opens, continues = _steps(opening, alive, step)
        rows.append(rows[-1] * continues + pad(rows[-1][:, :-1], (1, 0)) * opens)
    return rows


def _steps(opening: Tensor, alive: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """The probabilities (B, 1) that a token opens and continues a word; the first token always opens one."""
    lives = alive[step, :, None]
    opens = opening[step, :, None] if step else lives
    return opens, lives - opens
