"""All n-grams in one recursion whose shapes do not depend on the data, for devices that are not waited for.

The clips of a sentence and order sum to L at most. So its L columns are *slots*: an n-gram with clip c has c of them
side by side, one for each state k = 1..c. The recursion of ``renewal.py`` runs over all slots of the batch at once.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.torch import renewal
from bleugrad.backends.torch.windows import add_window_gradient, window_probabilities


@dataclass(frozen=True)
class Slots:
    """``pattern`` (N, B, L): the column of each slot's n-gram. ``used`` and ``first``: whether it counts, and k = 1."""

    pattern: Tensor
    used: Tensor
    first: Tensor

    @classmethod
    def of(cls, clips: Tensor, steps: int) -> "Slots":
        """The slots of ``clips`` (B, N, L) for T positions, in which nothing matches more often than T times."""
        clips = clips.transpose(0, 1).clamp(max=steps)
        ends, columns = clips.cumsum(2), clips.shape[2]
        slot = torch.arange(columns, device=clips.device).expand(clips.shape).contiguous()
        pattern = torch.searchsorted(ends, slot, right=True).clamp(max=columns - 1)
        used = slot < ends[..., -1:]
        return cls(pattern, used, (slot == (ends - clips).gather(2, pattern)) | ~used)

    def take(self, values: Tensor) -> Tensor:
        """Values (..., N, B, L) of the n-grams' columns, 0 in slots that are not used."""
        return values.gather(-1, self.pattern.expand(values.shape)) * self.used


class SlotRun:
    """The recursion, run forward; ``matches`` (T, B, N) are the new matches.

    O(T N B L) memory, N + 4 such tensors. The positions are walked one by one.
    """

    def __init__(self, inputs: Any) -> None:
        units, alive, opening, clips, overlaps, spans = inputs
        self.units, self.spans, self.orders = units, spans, clips.shape[1]
        steps, batch, columns = units.shape
        self.slots = slots = Slots.of(clips, steps)
        self.windows = window_probabilities(units, spans, 0, columns, self.orders)
        order = torch.arange(1, self.orders + 1, device=units.device)[:, None, None]
        tokens = _tokens(spans, self.orders)
        shape = (self.orders, batch, columns)
        lags = order.expand(shape) if tokens is None else slots.take(tokens).clamp(min=1)
        longest = self.orders if tokens is None else max(steps, 1)
        tails, self.sources = [], []
        for shift in range(1, self.orders):
            same = slots.take(overlaps[shift - 1].transpose(0, 1)) & (order > shift)
            source = (slots.pattern + order - shift).clamp(0, columns - 1)
            probs = self.windows[:, shift - 1, None].expand(steps, *shape).gather(3, source.expand(steps, *shape)) * same
            back = shift if tokens is None else tokens[shift - 1].expand(shape).gather(2, slots.pattern)
            lag = torch.where(same, back, 1)
            tails.append(renewal.Tail(probs.flatten(1), renewal.IndexDelay(lag.flatten(), longest)))
            self.sources.append((same, source))
        self.chain = renewal.Renewal(
            window_probs=slots.take(self.windows).flatten(1),
            delay=renewal.IndexDelay(lags.flatten(), longest),
            alive=None if alive is None else alive[:, None, :, None].expand(steps, *shape).flatten(1),
            opening=None if opening is None else opening[:, None, :, None].expand(steps, *shape).flatten(1),
            first=slots.first.flatten(),
            tails=tails,
        )
        completed, self.trace = renewal.run(self.chain)
        self.matches = (completed.view(steps, *shape) * slots.used).sum(3).flip(0).transpose(1, 2).contiguous()

    def backward(self, grad: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients of the units, of ``alive`` and of ``opening``."""
        steps, slots = grad.shape[0], self.slots
        of_states = (grad.transpose(1, 2)[..., None] * slots.used).flatten(1)
        found = renewal.adjoint(self.chain, self.trace, of_states, of_states.new_ones(()))
        shape = (steps, *slots.pattern.shape)
        of_windows = torch.zeros_like(self.windows)
        of_windows.scatter_add_(3, slots.pattern.expand(shape), found.window_probs.view(shape) * slots.used)
        for shift, ((same, source), of_tail) in enumerate(zip(self.sources, found.tails, strict=True)):
            columns, values = source.expand(shape).transpose(1, 2), (of_tail.view(shape) * same).transpose(1, 2)
            of_windows[:, shift].scatter_add_(2, columns.flatten(2), values.flatten(2))
        of_units = torch.zeros_like(self.units)
        add_window_gradient(of_units, of_windows, self.windows, self.units, self.spans, 0)
        others = (None if one is None else one.view(shape).sum((1, 3)) for one in (found.alive, found.opening))
        return of_units, *others


def _tokens(spans: Tensor | None, orders: int) -> Tensor | None:
    """Tokens of the n units from each column on, (N, B, L); None where they are n."""
    if spans is None:
        return None
    padded = torch.nn.functional.pad(spans, (0, orders - 1))
    return torch.stack([padded[:, n : n + spans.shape[1]] for n in range(orders)]).cumsum(0)
