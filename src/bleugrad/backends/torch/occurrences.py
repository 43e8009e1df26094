"""Expected matches from the probabilities of two occurrences, for devices that are not waited for.

Let H[w, u] be the probability that an occurrence of an n-gram ends at u given that one ended at w, and m that one ends
at u. The k-th occurrence ends at u with ::

    f^k (I + H) = f^{k-1} H,  f^1 (I + H) = m,        hence f^k = m (I - P) P^{k-1},   P = I - (I + H)^-1

and E[min(count, c)] is the sum of f^k over k = 1..c and all u. P[w, u] is the probability of the next occurrence: its
powers do not grow. All matrices are triangular, one for each slot of ``slots.py``, and position 0 is before the start.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.operation import Outputs
from bleugrad.backends.torch.slots import Slots

OCCURRENCE_ELEMENTS = 2**27
"""Sentences are taken together up to this many numbers of one matrix for every slot; larger sentences are walked."""


class Chunked:
    """Matches, and more outputs with the sentences first, by operations that autograd knows; chunks of sentences.

    ``function`` takes the inputs of an operation with the sentences on the given axes; the first two inputs are
    differentiable. One chunk keeps what its backward pass needs. Several compute it again, so that memory is that of
    one chunk.
    """

    def __init__(self, function: Callable[..., Outputs], axes: tuple[int, ...], *inputs: Tensor) -> None:
        self.function, self.axes, self.inputs = function, axes, inputs
        self.kept: tuple[list[Tensor], Outputs] | None = None

    @classmethod
    def of(cls, function: Callable[..., Outputs], axes: tuple[int, ...], *inputs: Tensor) -> "Chunked | None":
        """None on devices that are waited for, and where a sentence is too large or has no n-grams."""
        token_probs, _, clips, *_ = inputs
        if token_probs.device.type in SYNCHRONOUS or not 0 < _numbers(token_probs, clips) <= OCCURRENCE_ELEMENTS:
            return None
        return cls(function, axes, *inputs)

    def forward(self, keep: bool) -> Outputs:
        """The outputs."""
        chunks = self._chunks()
        if keep and len(chunks) == 1:
            self.kept = self._traced(chunks[0])
            return tuple(one.detach() for one in self.kept[1])
        with torch.no_grad():
            found = [self.function(*self._part(chunk)) for chunk in chunks]
        return tuple(torch.cat(parts) for parts in zip(*found, strict=True))

    def backward(self, grads: Any) -> tuple[Tensor, Tensor]:
        """The gradients of the first two inputs."""
        found = [self._gradients(chunk, grads) for chunk in self._chunks()]
        firsts, seconds = zip(*found, strict=True)
        if len(found) == 1:
            return firsts[0], seconds[0]
        return torch.cat(firsts, self.axes[0]), torch.cat(seconds, self.axes[1])

    def _gradients(self, chunk: slice, grads: Any) -> tuple[Tensor, ...]:
        leaves, outputs = self._traced(chunk) if self.kept is None else self.kept
        pairs = [pair for pair in zip(outputs, grads, strict=True) if pair[1] is not None and pair[0].requires_grad]
        if not pairs:  # nothing depends on the inputs, as the length of a graph of one vertex
            return tuple(torch.zeros_like(one) for one in leaves)
        found, given = [one for one, _ in pairs], [grad[chunk] for _, grad in pairs]
        return torch.autograd.grad(found, leaves, given, materialize_grads=True)

    def _chunks(self) -> list[slice]:
        token_probs, _, clips, *_ = self.inputs
        height, batch = OCCURRENCE_ELEMENTS // _numbers(token_probs, clips), clips.shape[0]
        return [slice(first, first + height) for first in range(0, batch, height)]

    def _part(self, chunk: slice) -> list[Tensor]:
        pairs = zip(self.inputs, self.axes, strict=True)
        return [one[:, chunk] if axis else one[chunk] for one, axis in pairs]

    def _traced(self, chunk: slice) -> tuple[list[Tensor], Outputs]:
        first, second, *rest = self._part(chunk)
        leaves = [one.detach().requires_grad_() for one in (first, second)]
        with torch.enable_grad():
            return leaves, self.function(*leaves, *rest)


def _numbers(token_probs: Tensor, clips: Tensor) -> int:
    """Numbers of one matrix for every slot of a sentence."""
    return clips[:1].numel() * (token_probs.shape[0] + 1) ** 2


def slot_columns(slots: Slots) -> Tensor:
    """The columns of the last token of each slot's n-gram, the one before it, and so on: (B, N L N)."""
    batch, orders, columns = slots.pattern.shape
    order = torch.arange(orders, device=slots.pattern.device)
    place = slots.pattern[..., None] + (order[:, None, None] - order)
    return place.clamp_(0, columns - 1).view(batch, -1)


def slot_probs(token_probs: Tensor, slots: Slots) -> list[Tensor]:
    """The probabilities of these tokens from those of all columns, 0 before the start.

    Entry i, (B, N - i, L, 1, T + 1), is of the i-th token before the last, of the orders that have it.
    """
    steps, (batch, orders, columns) = token_probs.shape[0], slots.pattern.shape
    found = token_probs.gather(2, slot_columns(slots).expand(steps, -1, -1))
    found = torch.nn.functional.pad(found, (0, 0, 0, 0, 1, 0)).view(-1, batch, orders, columns, orders)
    each = found.permute(4, 1, 2, 3, 0).unsqueeze(4).unbind()
    return [one.split([back, orders - back], 1)[1] for back, one in enumerate(each)]


def first_order(values: Tensor) -> tuple[Tensor, Tensor]:
    """Those of the first order and of the others, on axis 1; the gradient is one operation."""
    first, others = values.split([1, values.shape[1] - 1], 1)
    return first, others


def expected_matches(windows: Tensor, tails: list[Tensor], overlaps: Tensor, slots: Slots) -> Tensor:
    """The expected matches (B, N).

    Args:
        windows: (B, N, L, T + 1, T + 1), that an n-gram stands after w and ends at u.
        tails: that its last d = 1..N - 1 tokens do, given that the others stood before, (B, N - d, L, ..), for n > d.
        overlaps: of :class:`bleugrad.references.ngrams.Patterns`.
        slots: of the n-grams.
    """
    pattern, again = slots.pattern, [windows]
    active = overlaps.permute(1, 2, 3, 0).gather(2, pattern[..., None].expand(*pattern.shape, len(overlaps)))
    active = active.to(windows.dtype)[..., None, None]
    for shift, tail in enumerate(tails, 1):
        used = tail * active[:, shift:, :, shift - 1]
        again.append(torch.nn.functional.pad(used, (0, 0, 0, 0, 0, 0, shift, 0)))
    found: Tensor = Occurrences.apply(windows[..., 0, :], torch.stack(again).sum(0), slots)  # type: ignore[no-untyped-call]
    return found


class Occurrences(torch.autograd.Function):
    """Sums of f^k (B, N) from m (B, N, L, T + 1) and H (B, N, L, T + 1, T + 1).

    With l^k = (I - P^(c - k + 1)) 1 the gradient of m is l^1, and that of H the sum of (f^{k-1} - f^k) l^k over k, a
    column times a row.
    """

    @staticmethod
    def forward(ctx, first, again, slots):  # type: ignore[no-untyped-def]
        """The sums; f by the bits of k - 1, and P^(c - k + 1) 1 by those of c - k + 1, one power of P after another."""
        rounds = min(first.shape[3] - 1, first.shape[2]).bit_length()
        identity = torch.eye(again.shape[4], device=again.device, dtype=again.dtype)
        stays = torch.linalg.solve_triangular(again, identity.expand_as(again), upper=True, unitriangular=True)
        found, power = first.unsqueeze(3) @ stays, identity - stays
        later = torch.ones_like(first).unsqueeze(4)
        bit = torch.arange(rounds, device=first.device)
        exponents = torch.stack([slots.earlier, slots.weight])[..., None, None]
        bits = (exponents.unsqueeze(-1) >> bit) & 1 > 0
        for number in range(rounds):
            power = power @ power if number else power
            found = torch.where(bits[0, ..., number], found @ power, found)
            later = torch.where(bits[1, ..., number], power @ later, later)
        found = found.squeeze(3) * slots.used[..., None]
        ctx.slots = slots
        ctx.save_for_backward(found, (1 - later).squeeze(4))
        return found.sum((2, 3))

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        """The gradients of m and H."""
        found, weights = ctx.saved_tensors
        linked = ctx.slots.earlier > 0
        weights = weights * grad[..., None, None]
        change = found.roll(1, 2) * linked[..., None] - found
        of_first = weights * (ctx.slots.used & ~linked)[..., None]
        return of_first, (change.unsqueeze(4) * weights.unsqueeze(3)).triu(1), None
