"""The renewal recursion of ``renewal.py``, for one order after another.

The walk takes a few operations for each position and order. Nothing is kept for the backward pass, which runs the
recursion of an order again: memory is that of the windows of all orders, and of the histories of one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.renewal import Renewal, RenewalGradient, adjoint, run
from bleugrad.backends.torch.slots import Slots
from bleugrad.backends.torch.windows import add_window_gradient, window_probabilities


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, None]:
    """See :data:`bleugrad.backends.operations.exact_matches`. O(T B N^2 L) time, O(T B N L) memory."""
    unit_probs, _, _, clips, _, spans = inputs
    matches = unit_probs.new_zeros(*unit_probs.shape[:2], clips.shape[1])
    if unit_probs.numel():
        windows = window_probabilities(unit_probs, spans, 0, unit_probs.shape[2], clips.shape[1])
        for order in _orders(windows, *inputs[1:]):
            matches[..., order.number - 1] = (run(order.renewal)[0] * order.used).sum(2)
    return (matches,), None


def backward(kept: None, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, ...]:
    """The gradients of ``unit_probs``, ``alive`` and ``opening``, 0 for inputs that are None."""
    unit_probs, _, opening, clips, _, spans = inputs
    of_units, of_alive = torch.zeros_like(unit_probs), unit_probs.new_zeros(unit_probs.shape[:2])
    of_opening = torch.zeros_like(of_alive)
    if unit_probs.numel():
        windows = window_probabilities(unit_probs, spans, 0, unit_probs.shape[2], clips.shape[1])
        of_windows = torch.zeros_like(windows)
        for order in _orders(windows, *inputs[1:]):
            of_new = grads[0][..., order.number - 1, None] * order.used
            found = adjoint(order.renewal, run(order.renewal)[1], of_new)
            order.add_gradient(of_windows, found)
            of_alive += found.alive
            if opening is not None:
                of_alive += found.continuing
                of_opening -= found.continuing
        add_window_gradient(of_units, of_windows, windows, unit_probs, spans, 0)
    return of_units, of_alive, of_opening


class _Order(NamedTuple):
    """The recursion of the n-grams of n = ``number`` units; ``used`` (B, L) says which slots count.

    Its window probabilities, and then its tails, are those of the windows of ``sizes`` units at ``places`` (B, L),
    multiplied by ``active`` (B, L).
    """

    number: int
    renewal: Renewal
    used: Tensor
    sizes: list[int]
    places: list[Tensor]
    active: list[Tensor]

    def add_gradient(self, of_windows: Tensor, found: RenewalGradient) -> None:
        """Add the gradients of window probabilities and tails to those of the windows (T, N, B, L)."""
        grads = [found.window_probs, *found.tails]
        for size, place, active, grad in zip(self.sizes, self.places, self.active, grads, strict=True):
            of_windows[:, size - 1].scatter_add_(2, place.expand(len(grad), -1, -1), grad * active)


def _orders(
    windows: Tensor, alive: Tensor | None, opening: Tensor | None, clips: Tensor, overlaps: Tensor, spans: Tensor | None
) -> Iterator[_Order]:
    """The orders 1 to N, from the probabilities of windows (T, N, B, L) of :func:`window_probabilities`."""
    steps, orders, batch, columns = windows.shape
    slots, dtype = Slots.of(clips, steps), windows.dtype
    lives = windows.new_ones(steps, batch, 1) if alive is None else alive[..., None]
    continuing = None if opening is None else lives - opening[..., None]
    ends = None if spans is None else torch.nn.functional.pad(spans.cumsum(1), (1, 0))  # tokens before each column
    for n in range(1, orders + 1):
        column, used, linked = (part[:, n - 1] for part in (slots.column, slots.used, slots.linked))
        after = (column + n).clamp(max=columns)
        sizes, probs, places, active = [n, *_shifts(overlaps[:, :, n - 1], n)], [], [], [used]
        for size in sizes:  # all units first, then the tails
            places.append((after - size).clamp(min=0))
            if size < n:
                active.append(overlaps[size - 1, :, n - 1].gather(1, column) & used)
            probs.append(windows[:, size - 1].gather(2, places[-1].expand(steps, -1, -1)) * active[-1])
        lags: Sequence[int | Tensor] = (
            sizes if ends is None else [ends.gather(1, after) - ends.gather(1, place) for place in places]
        )
        renewal = Renewal(probs[0], probs[1:], lags, lives, continuing, linked.to(dtype))
        yield _Order(n, renewal, used, sizes, places, active)


def _shifts(overlaps: Tensor, order: int) -> Iterable[int]:
    """The shifts at which n-grams of an order may overlap themselves; those that occur, where values may be read."""
    if overlaps.device.type not in SYNCHRONOUS:
        return range(1, order)
    return (shift for shift in range(1, order) if overlaps[shift - 1].any())
