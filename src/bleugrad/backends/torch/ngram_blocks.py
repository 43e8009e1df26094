"""Blocks of n-grams and the recursions of each, forward and backward.

Nearly all n-grams occur once in the reference and do not overlap themselves: those run through the recursion together,
one state each. The others (repeated words, ``a b a``) are picked out and get as many states as they can match.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bleugrad.backends.torch import renewal
from bleugrad.backends.torch.windows import add_window_gradient, window_probabilities


def column_blocks(unit_probs: Tensor, max_order: int, elements: int) -> Iterator[tuple[int, int]]:
    """Ranges of reference columns whose windows of all orders are at most so many elements."""
    steps, batch, columns = unit_probs.shape
    width = max(1, elements // max(1, steps * batch * max_order))
    for first in range(0, columns if unit_probs.numel() else 0, width):
        yield first, min(first + width, columns)


def window_blocks(
    unit_probs: Tensor, clips: Tensor, overlaps: Tensor, spans: Tensor | None, elements: int
) -> "Iterator[Block]":
    """The n-grams in blocks of columns; each reaches N - 1 columns further, for the tails of its last n-grams."""
    max_order, columns = clips.shape[1], unit_probs.shape[2]
    for first, last in column_blocks(unit_probs, max_order, elements):
        reach = min(last + max_order - 1, columns)
        windows = window_probabilities(unit_probs, spans, first, reach, max_order)
        own = torch.arange(first, reach, device=clips.device) < last
        yield Block(
            first,
            windows,
            (clips[:, :, first:reach] * own).transpose(0, 1).contiguous(),
            overlaps[:, :, :, first:reach].transpose(1, 2),
            None if spans is None else spans[:, first:reach],
            elements,
        )


@dataclass(frozen=True)
class Block:
    """Some columns: ``windows`` (T, N, B, J), ``clips`` (N, B, J), ``overlaps`` (D, N, B, J), ``spans`` (B, J)."""

    first: int
    windows: Tensor
    clips: Tensor
    overlaps: Tensor
    spans: Tensor | None
    elements: int

    @property
    def common(self) -> Tensor:
        """1 for the patterns that match once at most and never overlap themselves, (N, B, J)."""
        return ((self.clips == 1) & ~self.overlaps.any(0)).to(self.windows.dtype)

    def lengths(self) -> Tensor | None:
        """Tokens of each pattern, (N, B, J), or None where they are its order."""
        if self.spans is None:
            return None
        lengths, padded = [self.spans], self.spans
        for _ in range(1, self.clips.shape[0]):
            padded = torch.nn.functional.pad(padded[:, 1:], (0, 1))
            lengths.append(lengths[-1] + padded)
        return torch.stack(lengths).clamp(min=1)

    def common_chain(self, alive: Tensor | None, opening: Tensor | None) -> renewal.Renewal:
        """One state for each order, sentence and column."""
        lengths = self.lengths()
        return renewal.Renewal(
            window_probs=self.windows,
            delay=renewal.LadderDelay(self.windows.shape[1]) if lengths is None else renewal.IndexDelay(lengths),
            alive=None if alive is None else alive[:, None, :, None],
            opening=None if opening is None else opening[:, None, :, None],
        )

    def special_groups(self) -> "Iterator[SpecialGroup]":
        """The other patterns that count, in groups whose states fit a block."""
        special = ((self.clips > 1) | self.overlaps.any(0)) & (self.clips > 0)
        picked = special.nonzero()
        if picked.shape[0]:
            most = max(1, self.elements // self.windows.shape[0])
            group = torch.div(self.clips[special].cumsum(0) - 1, most, rounding_mode="floor")
            for part in picked.split(group.unique_consecutive(return_counts=True)[1].tolist()):
                yield SpecialGroup(self, part)


class BlockRun:
    """A block's recursions, run forward; ``matches`` (T, N, B) are its new matches."""

    def __init__(self, block: Block, alive: Tensor | None, opening: Tensor | None) -> None:
        self.block, self.common = block, block.common
        self.chain = block.common_chain(alive, opening)
        completed, self.trace = renewal.run(self.chain)
        self.matches = torch.einsum("tnbj,nbj->tnb", completed, self.common).flip(0)
        self.special = []
        for group in block.special_groups():
            chain = group.chain(block, alive, opening)
            completed, trace = renewal.run(chain)
            self.matches.view(completed.shape[0], -1).index_add_(
                1, group.cell[group.pattern_of_state], completed.flip(0)
            )
            self.special.append((group, chain, trace))


def sum_matches(runs: Iterable[BlockRun], unit_probs: Tensor, clips: Tensor) -> Tensor:
    """New matches of all blocks, (T, B, N)."""
    matches = unit_probs.new_zeros(unit_probs.shape[0], clips.shape[1], unit_probs.shape[1])
    for run in runs:
        matches += run.matches
    return matches.transpose(1, 2).contiguous()


class BlockGradient:
    """The gradients of ``unit_probs`` (T, B, L), ``alive`` and ``opening`` (T, B), block by block."""

    def __init__(self, unit_probs: Tensor, spans: Tensor | None) -> None:
        self.unit_probs, self.spans = unit_probs, spans
        self.units = torch.zeros_like(unit_probs)
        self.alive, self.opening = (unit_probs.new_zeros(unit_probs.shape[:2]) for _ in range(2))

    def add(self, run: BlockRun, grad: Tensor) -> None:
        """Add what the gradient (T, N, B) of the new matches gives through one block."""
        block, steps = run.block, grad.shape[0]
        gradient = renewal.adjoint(run.chain, run.trace, grad[..., None], run.common)
        grad_windows = gradient.window_probs
        if gradient.alive is not None:
            self.alive += gradient.alive.view_as(self.alive)
        if gradient.opening is not None:
            self.opening += gradient.opening.view_as(self.opening)
        for group, chain, trace in run.special:
            of_states = grad.view(steps, -1).index_select(1, group.cell[group.pattern_of_state])
            gradient = renewal.adjoint(chain, trace, of_states, of_states.new_ones(()))
            group.add_gradient(gradient, grad_windows, self.alive, self.opening)
        add_window_gradient(self.units, grad_windows, block.windows, self.unit_probs, self.spans, block.first)

    def of(self, alive: Tensor | None, opening: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients, None for what was not given."""
        return self.units, None if alive is None else self.alive, None if opening is None else self.opening


class SpecialGroup:
    """Patterns with several matches or self-overlap, c_g states each.

    At the shift of s units a pattern of n units overlaps itself in n - s, and its tail is the window of its last s
    units.
    """

    def __init__(self, block: Block, picked: Tensor) -> None:
        order_index, sentence, column = picked.unbind(1)
        _, batch, width = block.clips.shape
        clips = block.clips[order_index, sentence, column]
        self.sentence = sentence
        self.cell = order_index * batch + sentence
        self.window = (order_index * batch + sentence) * width + column
        self.pattern_of_state = torch.repeat_interleave(clips)
        begin = clips.cumsum(0) - clips
        self.first = torch.zeros_like(self.pattern_of_state, dtype=torch.bool).index_fill_(0, begin, True)
        lengths = block.lengths()
        flat_lengths = None if lengths is None else lengths.view(-1)
        self.delay = self._delay(order_index + 1, flat_lengths, self.window)
        self.tails: list[tuple[Tensor, Tensor, renewal.Delay]] = []
        for shift, overlap in enumerate(block.overlaps[:, order_index, sentence, column], start=1):
            if overlap.any():
                window = ((shift - 1) * batch + sentence) * width + column + order_index + 1 - shift
                window = torch.where(overlap, window, self.window)
                head = torch.where(overlap, ((shift - 1) * batch + sentence) * width + column, self.window)
                shifts = torch.full_like(order_index, shift)
                self.tails.append((overlap, window, self._delay(shifts, flat_lengths, head)))

    def _delay(self, units: Tensor, lengths: Tensor | None, window: Tensor) -> renewal.Delay:
        """The tokens of so many units, for each state."""
        return renewal.IndexDelay((units if lengths is None else lengths[window])[self.pattern_of_state])

    def chain(self, block: Block, alive: Tensor | None, opening: Tensor | None) -> renewal.Renewal:
        """The states' recursion."""
        windows = block.windows.view(block.windows.shape[0], -1)
        sentence = self.sentence[self.pattern_of_state]
        return renewal.Renewal(
            window_probs=windows[:, self.window[self.pattern_of_state]],
            delay=self.delay,
            alive=None if alive is None else alive[:, sentence],
            opening=None if opening is None else opening[:, sentence],
            first=self.first,
            tails=[
                renewal.Tail((windows[:, window] * overlap)[:, self.pattern_of_state], delay)
                for overlap, window, delay in self.tails
            ],
        )

    def add_gradient(
        self, gradient: renewal.RenewalGradient, grad_windows: Tensor, grad_alive: Tensor, grad_opening: Tensor
    ) -> None:
        """Add the gradients of the chain's inputs to those of the block's windows, of ``alive`` and of ``opening``."""
        flat = grad_windows.view(grad_windows.shape[0], -1)
        flat.index_add_(1, self.window[self.pattern_of_state], gradient.window_probs)
        for (overlap, window, _), grad_tail in zip(self.tails, gradient.tails, strict=True):
            flat.index_add_(1, window[self.pattern_of_state], grad_tail * overlap[self.pattern_of_state])
        sentence = self.sentence[self.pattern_of_state]
        if gradient.alive is not None:
            grad_alive.index_add_(1, sentence, gradient.alive)
        if gradient.opening is not None:
            grad_opening.index_add_(1, sentence, gradient.opening)
