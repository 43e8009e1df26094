"""The number of words: in pairs for a fixed length, token by token for a random one."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.dtypes import widest_float
from bleugrad.backends.torch.sum_distribution import convolve_pairs, convolve_pairs_backward


def forward(
    keep: bool, opening: Tensor, limits: Tensor, alive: Tensor | None, stop: Tensor | None
) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.word_counts`. O(T log^2 T) time per sentence, O(T^2) with ``stop``."""
    if alive is not None and stop is not None:
        rows = _reached(opening, alive)
        return (sum(row * stop[:, step, None] for step, row in enumerate(rows)),), None  # type: ignore[return-value]
    steps, batch = opening.shape
    if opening.numel() == 0:
        return (opening.new_ones(batch, steps + 1),), None
    probs = convolve_pairs(_masses(opening, limits))[0][0, :, : steps + 1]
    return (probs.to(opening.dtype).contiguous(),), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...]:
    """The gradients of ``opening``, ``alive`` and ``stop``, None for inputs that are None."""
    opening, limits, alive, stop = inputs
    (grad,) = grads
    steps = opening.shape[0]
    grad_opening = torch.zeros_like(opening)
    if opening.numel() == 0:
        return grad_opening, *(None if one is None else torch.zeros_like(one) for one in (alive, stop))
    if alive is None:
        top, halves = convolve_pairs(_masses(opening, limits))
        padded = torch.nn.functional.pad(grad.to(top.dtype), (0, top.shape[2] - grad.shape[1]))
        of_masses = convolve_pairs_backward(padded[None], halves)[0]
        counted = torch.arange(steps, device=limits.device) < limits[:, None]
        grad_opening += (torch.where(counted, of_masses[..., 1] - of_masses[..., 0], 0)).t()
        grad_opening[0] = 0
        return grad_opening, None, None
    grad_alive, grad_stop = torch.zeros_like(alive), torch.zeros_like(stop)
    back, rows = torch.zeros_like(grad), _reached(opening, alive)
    for step in range(steps, -1, -1):
        grad_stop[:, step] = (grad * rows[step]).sum(1)
        back = back + grad * stop[:, step, None]
        if step > 0:
            before, lives = rows[step - 1], alive[step - 1, :, None]
            opens = lives if step == 1 else opening[step - 1, :, None]
            shifted = torch.nn.functional.pad(back[:, 1:], (0, 1))
            stays, moves = (before * back).sum(1), (before * shifted).sum(1)
            grad_alive[step - 1] = moves if step == 1 else stays
            grad_opening[step - 1] = 0 if step == 1 else moves - stays
            back = back * (lives - opens) + shifted * opens
    return grad_opening, grad_alive, grad_stop


def _reached(opening: Tensor, alive: Tensor) -> list[Tensor]:
    """The probabilities (B, words) of reaching each length, 0 to T tokens; the first token always opens a word."""
    steps, batch = opening.shape
    rows = [torch.nn.functional.pad(opening.new_ones(batch, 1), (0, steps))]
    for step in range(steps):
        lives = alive[step][:, None]
        opens = lives if step == 0 else opening[step][:, None]
        longer = torch.nn.functional.pad(rows[-1][:, :-1], (1, 0))
        rows.append(rows[-1] * (lives - opens) + longer * opens)
    return rows


def _masses(opening: Tensor, limits: Tensor) -> Tensor:
    """1 + a sum of independent indicators: the masses (1, B, T, 2) of no word and one word per token, in float64."""
    position = torch.arange(opening.shape[0], device=limits.device)
    certain = torch.where(position == 0, 1.0, opening.t().to(widest_float(opening.device)))
    opens = torch.where(position < limits[:, None], certain, 0)
    return torch.stack([1 - opens, opens], 2)[None]
