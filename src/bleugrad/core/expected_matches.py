"""Expected clipped matches, exactly: E[O_n] = sum over distinct reference n-grams g of E[min(count(g), c_g)].

Nearly all n-grams occur once in the reference and do not overlap themselves: those run through the recursion together,
one state each. The others (repeated words, ``a b a``) are picked out and get as many states as they can match.
"""

from collections.abc import Iterator
from typing import Optional, cast

import torch
from torch import Tensor

from bleugrad.core import renewal
from bleugrad.core.ngrams import Patterns
from bleugrad.core.windows import add_window_gradient, window_probabilities

BLOCK_ELEMENTS = 2**21
"""How many numbers one working tensor of a block of n-grams may hold."""


def expected_matches(match_probs: Tensor, patterns: Patterns, alive: Tensor | None = None) -> Tensor:
    """Expected new clipped matches completed at each position, (T, B, N); their sum over T is E[O_n]. Exact.

    Args:
        match_probs: (T, B, L), probability that token t is the token of column j; 0 where t is past the end.
        patterns: the distinct n-grams of each sentence.
        alive: (T, B), probability that token t does not end the sequence; None where the length is fixed. With it,
            ``match_probs`` are those of the full rows, not renormalised.

    O(T B N L) time. Memory is one (T, B, L) gradient and a few working tensors of a block of n-grams; the blocks are
    computed again in the backward pass. No logarithm or division occurs, so there is nothing to break.
    """
    matches = _expected_matches(match_probs, patterns.clips, patterns.lengths, patterns.overlaps, alive)
    return cast(Tensor, matches)


@torch.library.custom_op("bleugrad::expected_matches", mutates_args=())
def _expected_matches(
    match_probs: Tensor, clips: Tensor, lengths: Tensor, overlaps: Tensor, alive: Optional[Tensor]
) -> Tensor:
    steps, batch, _ = match_probs.shape
    max_order = clips.shape[1]
    matches = match_probs.new_zeros(steps, max_order, batch)
    if match_probs.numel() == 0:
        return matches.transpose(1, 2).contiguous()
    common, special = _split(clips, overlaps)
    for first, last in column_blocks(match_probs, max_order):
        chain = _common_chain(match_probs, max_order, alive, first, last)
        completed = renewal.run(chain).completed.view(steps, max_order, batch, last - first)
        matches += torch.einsum("tnbj,bnj->tnb", completed, common[:, :, first:last].to(completed.dtype))
    for picked in _special_blocks(special, clips, steps):
        group = _SpecialGroup(match_probs, clips, lengths, overlaps, alive, picked)
        matches.view(steps, -1).index_add_(1, group.cell_of_state, renewal.run(group.chain).completed)
    return matches.transpose(1, 2).contiguous()


@torch.library.custom_op("bleugrad::expected_matches_backward", mutates_args=())
def _expected_matches_backward(
    grad: Tensor, match_probs: Tensor, clips: Tensor, lengths: Tensor, overlaps: Tensor, alive: Optional[Tensor]
) -> tuple[Tensor, Tensor]:
    steps, batch, _ = match_probs.shape
    max_order = clips.shape[1]
    grad = grad.transpose(1, 2).contiguous()
    grad_match = torch.zeros_like(match_probs)
    grad_alive = match_probs.new_zeros(steps, batch)
    if match_probs.numel() == 0:
        return grad_match, grad_alive
    common, special = _split(clips, overlaps)
    for first, last in column_blocks(match_probs, max_order):
        chain = _common_chain(match_probs, max_order, alive, first, last)
        counted = common[:, :, first:last].transpose(0, 1).to(grad.dtype).contiguous()
        shape = (steps, max_order, batch, last - first)
        grad_completed = (grad[..., None] * counted).view(steps, -1)
        gradient = renewal.adjoint(chain, renewal.run(chain), grad_completed)
        windows, grad_windows = chain.window_probs.view(shape), gradient.window_probs.view(shape)
        add_window_gradient(grad_match, grad_windows, windows, match_probs, first)
        if gradient.alive is not None:
            grad_alive += gradient.alive.view(shape).sum((1, 3))
    for picked in _special_blocks(special, clips, steps):
        group = _SpecialGroup(match_probs, clips, lengths, overlaps, alive, picked)
        grad_completed = grad.reshape(steps, -1).index_select(1, group.cell_of_state)
        gradient = renewal.adjoint(group.chain, renewal.run(group.chain), grad_completed)
        group.add_gradient(gradient, grad_match, grad_alive)
    return grad_match, grad_alive


@_expected_matches.register_fake
def _(match_probs: Tensor, clips: Tensor, lengths: Tensor, overlaps: Tensor, alive: Optional[Tensor]) -> Tensor:
    return match_probs.new_empty(*match_probs.shape[:2], clips.shape[1])


@_expected_matches_backward.register_fake
def _(
    grad: Tensor, match_probs: Tensor, clips: Tensor, lengths: Tensor, overlaps: Tensor, alive: Optional[Tensor]
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(match_probs), match_probs.new_empty(match_probs.shape[:2])


def _save_for_backward(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    *inputs, alive = ctx.saved_tensors
    grad_match, grad_alive = _expected_matches_backward(grad, *inputs, alive)
    return grad_match, None, None, None, None if alive is None else grad_alive


_expected_matches.register_autograd(_backward, setup_context=_save_for_backward)


def _split(clips: Tensor, overlaps: Tensor) -> tuple[Tensor, Tensor]:
    """Which patterns match once at most and never overlap themselves, and which of the others count: (B, N, L) each."""
    plain = (clips <= 1) & ~overlaps.any(0)
    return plain & (clips > 0), ~plain & (clips > 0)


def column_blocks(match_probs: Tensor, max_order: int) -> Iterator[tuple[int, int]]:
    """Ranges of reference columns whose windows of all orders fit ``BLOCK_ELEMENTS``."""
    steps, batch, columns = match_probs.shape
    width = max(1, BLOCK_ELEMENTS // max(1, steps * batch * max_order))
    for first in range(0, columns, width):
        yield first, min(first + width, columns)


def _common_chain(match_probs: Tensor, max_order: int, alive: Tensor | None, first: int, last: int) -> renewal.Renewal:
    """One state for each order, sentence and column of the block."""
    steps, batch, _ = match_probs.shape
    windows = window_probabilities(match_probs, first, last, max_order)
    band = batch * (last - first)
    spread = None if alive is None else alive[:, None, :, None].expand_as(windows).reshape(steps, -1)
    return renewal.Renewal(
        window_probs=windows.view(steps, -1),
        bands=[(order * band, (order + 1) * band, order + 1) for order in range(max_order)],
        alive=spread,
    )


def _special_blocks(special: Tensor, clips: Tensor, steps: int) -> Iterator[Tensor]:
    """The special patterns as (X, 3) indices into (N, B, L), in groups whose states fit a block."""
    picked = special.transpose(0, 1).nonzero()
    if picked.shape[0] == 0:
        return
    order_index, sentence, column = picked.unbind(1)
    states = clips[sentence, order_index, column].cumsum(0)
    group = torch.div(states - 1, max(1, BLOCK_ELEMENTS // max(1, steps)), rounding_mode="floor")
    sizes = group.unique_consecutive(return_counts=True)[1].tolist()
    yield from picked.split(sizes)


def _bands(lengths: Tensor) -> list[tuple[int, int, int]]:
    """Runs of equal numbers, as (first, last + 1, number)."""
    numbers, counts = lengths.unique_consecutive(return_counts=True)
    ends = counts.cumsum(0)
    return list(zip((ends - counts).tolist(), ends.tolist(), numbers.tolist(), strict=True))


class _SpecialGroup:
    """Patterns with several matches or self-overlap: c_g states each, window and tail probabilities gathered."""

    def __init__(
        self,
        match_probs: Tensor,
        clips: Tensor,
        lengths: Tensor,
        overlaps: Tensor,
        alive: Tensor | None,
        picked: Tensor,
    ) -> None:
        order_index, batch_index, column = picked.unbind(1)
        self.columns = match_probs.shape[2]
        self.sentence = batch_index
        self.length = lengths[batch_index, order_index, column]
        self.end = batch_index * self.columns + column + self.length - 1
        self.max_length = int(self.length.max())
        self.overlap = overlaps[:, batch_index, order_index, column]
        self.tokens, self.tail_probs = self._tail_probabilities(match_probs)
        clip = clips[batch_index, order_index, column]
        self.pattern_of_state = torch.repeat_interleave(clip)
        begin = clip.cumsum(0) - clip
        first = torch.zeros_like(self.pattern_of_state, dtype=torch.bool).index_fill_(0, begin, True)
        self.cell_of_state = (order_index * clips.shape[0] + batch_index)[self.pattern_of_state]
        window_probs = torch.zeros_like(self.tail_probs[0])
        for size, tail in enumerate(self.tail_probs, start=1):
            window_probs = torch.where(self.length == size, tail, window_probs)
        self.chain = renewal.Renewal(
            window_probs=window_probs[:, self.pattern_of_state],
            bands=_bands(self.length[self.pattern_of_state]),
            alive=None if alive is None else alive[:, batch_index[self.pattern_of_state]],
            first=first,
            tails={
                shift: (self.tail_probs[shift - 1] * overlap)[:, self.pattern_of_state]
                for shift, overlap in enumerate(self.overlap, start=1)
                if overlap.any()
            },
        )

    def _tail_probabilities(self, match_probs: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """For d = 1..max_length, the d-th token from the end at each position, and tail(., d): both (T, X)."""
        flat = match_probs.reshape(match_probs.shape[0], -1)
        tokens: list[Tensor] = []
        tails: list[Tensor] = []
        for size in range(1, self.max_length + 1):
            token = flat[:, (self.end - size + 1).clamp(min=0)] * (self.length >= size)
            tail = token.clone()
            if size > 1:
                tail[: size - 1] = 0
                tail[size - 1 :] = tails[-1][size - 1 :] * token[: 1 - size]
            tokens.append(token)
            tails.append(tail)
        return tokens, tails

    def add_gradient(self, gradient: renewal.RenewalGradient, grad_match: Tensor, grad_alive: Tensor) -> None:
        """Add the cotangents of the chain's inputs to those of ``match_probs`` and ``alive``."""
        flat = grad_match.view(grad_match.shape[0], -1)
        grad_windows = self._sum_states(gradient.window_probs)
        grad_longer = torch.zeros_like(grad_windows)
        for size in range(self.max_length, 0, -1):
            grad_tail = grad_longer + torch.where(self.length == size, grad_windows, 0)
            if size in gradient.tails:
                grad_tail += self._sum_states(gradient.tails[size]) * self.overlap[size - 1]
            grad_token, grad_longer = grad_tail, torch.zeros_like(grad_tail)
            if size > 1:
                grad_token = torch.zeros_like(grad_tail)
                grad_token[: 1 - size] = grad_tail[size - 1 :] * self.tail_probs[size - 2][size - 1 :]
                grad_longer[size - 1 :] = grad_tail[size - 1 :] * self.tokens[size - 1][: 1 - size]
            flat.index_add_(1, (self.end - size + 1).clamp(min=0), grad_token * (self.length >= size))
        if gradient.alive is not None:
            grad_alive.index_add_(1, self.sentence[self.pattern_of_state], gradient.alive)

    def _sum_states(self, of_state: Tensor) -> Tensor:
        summed = of_state.new_zeros(of_state.shape[0], self.length.shape[0])
        return summed.index_add_(1, self.pattern_of_state, of_state)
