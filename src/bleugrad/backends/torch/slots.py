"""All n-grams in one recursion whose shapes do not depend on the data, for devices that are not waited for.

The clips of a sentence and order sum to L at most. So its L columns are *slots*: an n-gram with clip c has c of them
side by side, one for each state k = 1..c. N-grams of tokens go through the tree of ``transfer_tree.py`` in
logarithmically many operations. N-grams of words look back over as many tokens as they have, which has no small bound:
there the recursion of ``renewal.py`` walks over the positions, all slots of the batch at once.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.torch import renewal
from bleugrad.backends.torch.transfer_tree import TransferTree
from bleugrad.backends.torch.windows import add_window_gradient, window_probabilities


@dataclass(frozen=True)
class Slots:
    """``pattern`` (N, B, L): the column of each slot's n-gram. ``begin``: its first slot. ``used``: whether it counts.

    ``weight``: c - k + 1, 0 where it is not used. A slot that is not used begins at itself.
    """

    pattern: Tensor
    begin: Tensor
    used: Tensor
    weight: Tensor

    @classmethod
    def of(cls, clips: Tensor, steps: int, dtype: torch.dtype) -> "Slots":
        """The slots of ``clips`` (B, N, L) for T positions, in which nothing matches more often than T times."""
        clips = clips.transpose(0, 1).clamp(max=steps)
        ends, columns = clips.cumsum(2), clips.shape[2]
        slot = torch.arange(columns, device=clips.device).expand(clips.shape).contiguous()
        pattern = torch.searchsorted(ends, slot, right=True).clamp(max=columns - 1)
        used, after = slot < ends[..., -1:], ends.gather(2, pattern)
        begin = torch.where(used, after - clips.gather(2, pattern), slot)
        return cls(pattern, begin, used, ((after - slot) * used).to(dtype))

    def take(self, values: Tensor) -> Tensor:
        """Values (..., N, B, L) of the n-grams' columns, 0 in slots that are not used."""
        return values.gather(-1, self.pattern.expand(values.shape)) * self.used


class SlotRun:
    """The recursion, run forward."""

    def __init__(self, inputs: Any) -> None:
        self.units, self.alive, self.opening, clips, overlaps, self.spans = inputs
        steps, batch, columns = self.units.shape
        self.orders = clips.shape[1]
        self.shape = shape = (steps, self.orders, batch, columns)
        self.slots = Slots.of(clips, steps, self.units.dtype)
        self.windows = window_probabilities(self.units, self.spans, 0, columns, self.orders)
        order = torch.arange(1, self.orders + 1, device=self.units.device)[:, None, None]
        self.tails, self.sources = [], []
        for shift in range(1, self.orders):
            same = self.slots.take(overlaps[shift - 1].transpose(0, 1)) & (order > shift)
            source = (self.slots.pattern + order - shift).clamp(0, columns - 1)
            tail = self.windows[:, shift - 1, None].expand(shape).gather(3, source.expand(shape)) * same
            self.tails.append(tail)
            self.sources.append((same, source))
        self.recursion = (_Tree if self.spans is None and self.opening is None else _Walk)(self, order)

    def matches(self) -> Tensor:
        """The new matches, (T, B, N)."""
        return self.recursion.completed.sum(3).transpose(1, 2).contiguous()

    def expanded(self, values: Tensor) -> Tensor:
        """(T, B) to (T, N, B, L)."""
        return values[:, None, :, None].expand(self.shape)

    def backward(self, grad: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients of the units, of ``alive`` and of ``opening``."""
        slots = self.slots
        of_q, of_tails, *others = self.recursion.backward(self, grad.transpose(1, 2)[..., None])
        of_windows = torch.zeros_like(self.windows)
        of_windows.scatter_add_(3, slots.pattern.expand(self.shape), of_q * slots.used)
        for shift, ((same, source), of_tail) in enumerate(zip(self.sources, of_tails, strict=True)):
            columns, values = source.expand(self.shape).transpose(1, 2), (of_tail * same).transpose(1, 2)
            of_windows[:, shift].scatter_add_(2, columns.flatten(2), values.flatten(2))
        of_units = torch.zeros_like(self.units)
        add_window_gradient(of_units, of_windows, self.windows, self.units, self.spans, 0)
        of_alive, of_opening = (None if one is None else one.sum((1, 3)) for one in others)
        return of_units, of_alive, of_opening


class _Tree:
    """The recursion over tokens; see ``transfer_tree.py``."""

    def __init__(self, of: SlotRun, order: Tensor) -> None:
        _steps, orders, batch, columns = of.shape
        self.own = torch.eye(orders, device=order.device, dtype=of.units.dtype)[:, None, None]
        beta = of.slots.take(of.windows)[..., None] * self.own
        self.lives = None if of.alive is None else of.expanded(of.alive)
        for shift, tail in enumerate(of.tails, start=1):
            beta[..., shift - 1] += tail
            beta[..., shift] -= tail if of.alive is None else tail * _earlier(of, shift)
        sentence = torch.arange(orders * batch, device=order.device).view(orders, batch, 1) * columns
        first = (of.slots.begin + sentence).flatten()
        alive = None if self.lives is None else self.lives.flatten(1)
        self.tree = TransferTree(beta.flatten(1, 3), alive, first)
        self.before, levels = self.tree.before.view(of.shape), self.tree.levels.view(of.shape)
        moved = (self.before if self.lives is None else self.lives * self.before) - levels
        self.completed = moved * of.slots.weight

    def backward(self, of: SlotRun, grad: Tensor) -> tuple[Tensor, list[Tensor], Tensor | None, None]:
        of_moved = grad * of.slots.weight
        of_before = of_moved if self.lives is None else of_moved * self.lives
        of_beta, of_alive = self.tree.backward(-of_moved.flatten(1), of_before.flatten(1))
        of_beta = of_beta.view(*of.shape, -1)
        if of_alive is not None:
            of_alive = torch.addcmul(of_alive.view(of.shape), of_moved, self.before)
        of_tails = []
        for shift, tail in enumerate(of.tails, start=1):
            here, after = of_beta[..., shift - 1], of_beta[..., shift]
            if of_alive is None:
                of_tails.append(here - after)
            else:
                of_tails.append(torch.addcmul(here, after, _earlier(of, shift), value=-1))
                of_alive[:-shift].addcmul_(after[shift:], tail[shift:], value=-1)
        return (of_beta * self.own).sum(4), of_tails, of_alive, None


def _earlier(of: SlotRun, shift: int) -> Tensor:
    """alive_{e - shift}, 1 before the start."""
    assert of.alive is not None
    return of.expanded(torch.nn.functional.pad(of.alive[:-shift], (0, 0, min(shift, len(of.alive)), 0), value=1.0))


class _Walk:
    """The recursion over positions, for words."""

    def __init__(self, of: SlotRun, order: Tensor) -> None:
        slots, longest = of.slots, of.orders
        steps, orders, _batch, columns = of.shape
        lags: Tensor = order.expand(of.shape[1:])
        backs: list[Tensor | int] = list(range(1, orders))
        if of.spans is not None:
            padded, longest = torch.nn.functional.pad(of.spans, (0, orders - 1)), max(steps, 1)
            tokens = torch.stack([padded[:, n : n + columns] for n in range(orders)]).cumsum(0)
            lags = slots.take(tokens).clamp(1, longest)
            backs = [tokens[:-1][n].expand(lags.shape).gather(2, slots.pattern) for n in range(orders - 1)]
        delays = [torch.where(same, back, 1).clamp(max=longest).flatten()
                  for (same, _), back in zip(of.sources, backs, strict=True)]  # fmt: skip
        slot = torch.arange(columns, device=order.device)
        self.chain = renewal.Renewal(
            window_probs=slots.take(of.windows).flatten(1),
            delay=renewal.IndexDelay(lags.flatten(), longest),
            alive=None if of.alive is None else of.expanded(of.alive).flatten(1),
            opening=None if of.opening is None else of.expanded(of.opening).flatten(1),
            first=(slots.begin == slot).flatten(),
            tails=[
                renewal.Tail(tail.flatten(1), renewal.IndexDelay(delay, longest))
                for tail, delay in zip(of.tails, delays, strict=True)
            ],
        )
        completed, self.trace = renewal.run(self.chain)
        self.completed = completed.view(of.shape).flip(0) * slots.used

    def backward(self, of: SlotRun, grad: Tensor) -> tuple[Tensor, list[Tensor], Tensor | None, Tensor | None]:
        given = (grad * of.slots.used).flatten(1)
        found = renewal.adjoint(self.chain, self.trace, given, given.new_ones(()))
        of_alive, of_opening = (None if one is None else one.view(of.shape) for one in (found.alive, found.opening))
        of_tails = [tail.view(of.shape) for tail in found.tails]
        return found.window_probs.view(of.shape), of_tails, of_alive, of_opening
