"""The number of words: in pairs for a fixed length, token by token for a random one."""

import math
from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.dtypes import widest_float
from bleugrad.backends.operation import Outputs
from bleugrad.backends.torch.scans import suffix_sums
from bleugrad.backends.torch.sum_distribution import convolve_pairs, convolve_pairs_backward


def forward(
    keep: bool, opening: Tensor, limits: Tensor, alive: Tensor | None, stop: Tensor | None
) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.word_counts`. O(T log^2 T) time per sentence, O(T^2) with ``stop``."""
    if opening.device.type not in SYNCHRONOUS and opening.numel():
        transforms = _Transforms(opening, limits, alive, stop)
        return (transforms.forward(),), transforms if keep else None
    if alive is not None and stop is not None:
        rows = _reached(opening, alive)
        return (sum(row * stop[:, step, None] for step, row in enumerate(rows)),), None  # type: ignore[return-value]
    steps, batch = opening.shape
    if opening.numel() == 0:
        return (opening.new_ones(batch, steps + 1),), None
    probs = convolve_pairs(_masses(opening, limits))[0][0, :, : steps + 1]
    return (probs.to(opening.dtype).contiguous(),), None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...]:
    """The gradients of ``opening``, ``alive`` and ``stop``, None for what is not given."""
    opening, limits, alive, stop = inputs
    (grad,) = grads
    if opening.device.type not in SYNCHRONOUS and opening.numel():
        return (_Transforms(*inputs) if kept is None else kept).backward(grad)
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


class _Transforms:
    """The generating functions of the number of words at all roots of unity z: few operations, whatever T is.

    Token t multiplies by phi_t = alive_t - opening_t + opening_t z, and r(z) = sum_t stop_t prod_{s < t} phi_s.
    O(B T^2) memory.
    """

    def __init__(self, opening: Tensor, limits: Tensor, alive: Tensor | None, stop: Tensor | None) -> None:
        steps, wide, pad = opening.shape[0], widest_float(opening.device), torch.nn.functional.pad
        self.dtype, self.within, self.stop = opening.dtype, None, None
        opens, lives = opening[1:].t().to(wide), None
        if alive is None or stop is None:
            self.within = torch.arange(steps, device=opening.device) < limits[:, None]
            opens = pad(opens, (1, 0), value=1.0) * self.within  # the first token always opens a word
        else:
            lives, self.stop = alive.t().to(wide), stop.to(wide)
            opens = torch.cat([lives[:, :1], opens], 1)
        angle = torch.arange((steps + 1) // 2 + 1, device=opening.device, dtype=wide) * (-2j * math.pi / (steps + 1))
        self.change = angle.exp().sub_(1)[:, None]  # z - 1
        self.factors = opens[:, None] * self.change + (1 if lives is None else lives[:, None])  # (B, F, T)
        self.products = pad(self.factors.cumprod(2), (1, 0), value=1.0)  # (B, F, T + 1)

    def forward(self) -> Tensor:
        """The probabilities (B, T + 1)."""
        sums = self.products[..., -1] if self.stop is None else (self.products * self.stop[:, None]).sum(2)
        probs: Tensor = torch.fft.irfft(sums, self.products.shape[2])
        return probs.to(self.dtype)

    def _later(self) -> Tensor:
        """What the factors are multiplied by, but for those before them: (B, F, T)."""
        if self.stop is not None:
            return suffix_sums(self.factors, self.stop[:, None, 1:])
        return torch.nn.functional.pad(self.factors[..., 1:], (0, 1), value=1.0).flip(2).cumprod(2).flip(2)

    def backward(self, grad: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients of ``opening``, ``alive`` and ``stop``."""
        size, wide = grad.shape[1], self.products.real.dtype
        given = torch.fft.rfft(grad.to(wide)).conj_physical()
        weight = torch.full_like(given[0], 2 / size)  # the other half of the spectrum is conjugate
        weight[:1].fill_(1 / size)
        if size % 2 == 0:
            weight[-1:].fill_(1 / size)
        given = (given * weight)[..., None]
        of_factors = given * self.products[..., :-1] * self._later()
        of_opens = (of_factors * self.change).sum(1).real
        of_opening = torch.nn.functional.pad(of_opens[:, 1:], (1, 0))
        if self.within is not None:
            return (of_opening * self.within).t().to(self.dtype), None, None
        of_lives = of_factors.sum(1).real
        of_lives[:, 0].add_(of_opens[:, 0])
        of_stop = (given * self.products).sum(1).real
        return of_opening.t().to(self.dtype), of_lives.t().to(self.dtype), of_stop.to(self.dtype)


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
