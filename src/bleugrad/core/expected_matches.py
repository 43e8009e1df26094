"""Expected clipped matches, exactly: E[O_n] = sum over distinct reference n-grams g of E[min(count(g), c_g)]."""

from typing import Optional, cast

import torch
from torch import Tensor

from bleugrad.core.blocks import BlockGradient, BlockRun, sum_matches, window_blocks
from bleugrad.core.native.kernels import kernels_for
from bleugrad.core.ngrams import Patterns
from bleugrad.core.operators import outside_autocast, refuse_double_backward, save_inputs

BLOCK_ELEMENTS = 2**22
"""How many numbers one working tensor of a block of n-grams may hold, ..."""

BLOCK_ROW = 2**12
"""... or how many one row of it, where that is more: below, calling an operation costs more than its work."""

KEPT_ELEMENTS = 2**24
"""Up to this many window probabilities in all, the blocks' forward runs are kept for the backward pass."""


def expected_matches(
    unit_probs: Tensor, patterns: Patterns, alive: Tensor | None = None, opening: Tensor | None = None
) -> Tensor:
    """Expected new clipped matches completed at each position, (T, B, N). Exact.

    Their sum over T is E[O_n]. With words, each has still to be multiplied by the probability that the next token opens
    a word or the sequence ends.

    Args:
        unit_probs: (T, B, L), probability that the window ending at t is the unit (token or word) of column j; 0 where
            t is past the end.
        patterns: the distinct n-grams of each sentence.
        alive: (T, B), probability that token t does not end the sequence; None where the length is fixed. With it,
            ``unit_probs`` are those of the full rows, not renormalised.
        opening: (T, B), probability that token t opens a word; None where every token does.

    O(T B N L) time. Memory is one (T, B, L) gradient and a few working tensors of a block of n-grams; the blocks are
    computed again in the backward pass. No logarithm or division occurs, so there is nothing to break.
    """
    inputs = (unit_probs, alive, opening, patterns.clips, patterns.overlaps, patterns.spans)
    if torch.is_grad_enabled() and unit_probs.requires_grad and kernels_for(unit_probs) is not None:
        return cast(Tensor, _KernelMatches.apply(*inputs))  # type: ignore[no-untyped-call]
    small = unit_probs.numel() * patterns.clips.shape[1] <= KEPT_ELEMENTS and not torch.compiler.is_compiling()
    if small and torch.is_grad_enabled() and unit_probs.requires_grad:
        return cast(Tensor, _KeptMatches.apply(*inputs))  # type: ignore[no-untyped-call]
    return cast(Tensor, _expected_matches(*inputs))


def block_elements(unit_probs: Tensor) -> int:
    """The size of a block's working tensors for (T, B, L) probabilities."""
    return max(BLOCK_ELEMENTS, BLOCK_ROW * unit_probs.shape[0])


class _KernelMatches(torch.autograd.Function):
    """The operator by its kernel, without what it costs to call an operator."""

    @staticmethod
    def forward(ctx, *inputs) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(*inputs)
        return _matches(*inputs)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        if torch.is_grad_enabled():
            return _backward(ctx, grad)  # type: ignore[no-untyped-call]
        saved = ctx.saved_tensors  # asked for once: activation checkpointing makes them then
        with outside_autocast(grad):
            units, *others = _matches_backward(grad, *saved)
        given = saved[1:3]
        return (
            units,
            *(None if of is None else found for of, found in zip(given, others, strict=True)),
            None,
            None,
            None,
        )


class _KeptMatches(torch.autograd.Function):
    """Few enough n-grams that the forward runs of their blocks are kept for the backward pass."""

    @staticmethod
    def forward(  # type: ignore[no-untyped-def]
        ctx, unit_probs, alive, opening, clips, overlaps, spans
    ) -> Tensor:
        ctx.save_for_backward(unit_probs, alive, opening, clips, overlaps, spans)
        ctx.runs = [
            BlockRun(block, alive, opening)
            for block in window_blocks(unit_probs, clips, overlaps, spans, block_elements(unit_probs))
        ]
        return sum_matches(ctx.runs, unit_probs, clips)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        if torch.is_grad_enabled():
            return _backward(ctx, grad)  # type: ignore[no-untyped-call]
        unit_probs, alive, opening, _, _, spans = ctx.saved_tensors
        with outside_autocast(grad):
            gradient = BlockGradient(unit_probs, spans)
            for run in ctx.runs:
                gradient.add(run, grad.transpose(1, 2).contiguous())
        return *gradient.of(alive, opening), None, None, None


@torch.library.custom_op("bleugrad::expected_matches", mutates_args=())
def _expected_matches(
    unit_probs: Tensor,
    alive: Optional[Tensor],
    opening: Optional[Tensor],
    clips: Tensor,
    overlaps: Tensor,
    spans: Optional[Tensor],
) -> Tensor:
    return _matches(unit_probs, alive, opening, clips, overlaps, spans)


def _matches(
    unit_probs: Tensor,
    alive: Tensor | None,
    opening: Tensor | None,
    clips: Tensor,
    overlaps: Tensor,
    spans: Tensor | None,
) -> Tensor:
    kernels = kernels_for(unit_probs)
    if kernels is not None:
        return kernels.matches(unit_probs, alive, opening, clips, overlaps, spans)
    runs = (
        BlockRun(block, alive, opening)
        for block in window_blocks(unit_probs, clips, overlaps, spans, block_elements(unit_probs))
    )
    return sum_matches(runs, unit_probs, clips)


@torch.library.custom_op("bleugrad::expected_matches_backward", mutates_args=())
def _expected_matches_backward(
    grad: Tensor,
    unit_probs: Tensor,
    alive: Optional[Tensor],
    opening: Optional[Tensor],
    clips: Tensor,
    overlaps: Tensor,
    spans: Optional[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    return _matches_backward(grad, unit_probs, alive, opening, clips, overlaps, spans)


def _matches_backward(
    grad: Tensor,
    unit_probs: Tensor,
    alive: Tensor | None,
    opening: Tensor | None,
    clips: Tensor,
    overlaps: Tensor,
    spans: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    kernels = kernels_for(unit_probs)
    if kernels is not None:
        return kernels.matches_backward(grad, unit_probs, alive, opening, clips, overlaps, spans)
    gradient = BlockGradient(unit_probs, spans)
    grad = grad.transpose(1, 2).contiguous()
    for block in window_blocks(unit_probs, clips, overlaps, spans, block_elements(unit_probs)):
        gradient.add(BlockRun(block, alive, opening), grad)
    return gradient.units, gradient.alive, gradient.opening


@_expected_matches.register_fake
def _(
    unit_probs: Tensor,
    alive: Optional[Tensor],
    opening: Optional[Tensor],
    clips: Tensor,
    overlaps: Tensor,
    spans: Optional[Tensor],
) -> Tensor:
    return unit_probs.new_empty(*unit_probs.shape[:2], clips.shape[1])


@_expected_matches_backward.register_fake
def _(
    grad: Tensor,
    unit_probs: Tensor,
    alive: Optional[Tensor],
    opening: Optional[Tensor],
    clips: Tensor,
    overlaps: Tensor,
    spans: Optional[Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    rows = unit_probs.shape[:2]
    return torch.empty_like(unit_probs), unit_probs.new_empty(rows), unit_probs.new_empty(rows)


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    saved = ctx.saved_tensors
    with outside_autocast(grad):
        grad_units, grad_alive, grad_opening = _expected_matches_backward(grad, *saved)
    _, alive, opening, *_ = saved
    kept = (None if alive is None else grad_alive, None if opening is None else grad_opening)
    return grad_units, *kept, None, None, None


_expected_matches.register_autograd(_backward, setup_context=save_inputs)
refuse_double_backward(_expected_matches_backward)
