"""The renewal recursion over blocks of n-grams."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from bleugrad.backends.devices import SYNCHRONOUS
from bleugrad.backends.operation import Outputs
from bleugrad.backends.torch.ngram_blocks import BlockGradient, BlockRun, sum_matches, window_blocks
from bleugrad.backends.torch.slots import SlotRun

BLOCK_ELEMENTS = 2**22
"""Numbers per working tensor of a block of n-grams, ..."""

BLOCK_ROW = 2**12
"""... or per row of it, where that is more: below this, calling an operation costs more than its work."""

KEPT_ELEMENTS = 2**24
"""Up to this many window probabilities in all, the forward runs of the blocks are kept for the backward pass."""


def forward(keep: bool, *inputs: Any) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.exact_matches`."""
    unit_probs, _, _, clips, _, _ = inputs
    if unit_probs.device.type not in SYNCHRONOUS and unit_probs.numel():
        run = SlotRun(inputs)
        return (run.matches(),), run if keep else None
    runs = _runs(*inputs)
    kept = list(runs) if keep and unit_probs.numel() * clips.shape[1] <= KEPT_ELEMENTS else None
    return (sum_matches(runs if kept is None else kept, unit_probs, clips),), kept


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor | None, ...]:
    """The gradients of ``unit_probs``, ``alive`` and ``opening``, 0 for what is not given."""
    if inputs[0].device.type not in SYNCHRONOUS and inputs[0].numel():
        return (SlotRun(inputs) if kept is None else kept).backward(grads[0])
    gradient = BlockGradient(inputs[0], inputs[-1])
    grad = grads[0].transpose(1, 2).contiguous()
    for run in _runs(*inputs) if kept is None else kept:
        gradient.add(run, grad)
    return gradient.units, gradient.alive, gradient.opening


def _runs(
    unit_probs: Tensor,
    alive: Tensor | None,
    opening: Tensor | None,
    clips: Tensor,
    overlaps: Tensor,
    spans: Tensor | None,
) -> Iterator[BlockRun]:
    elements = max(BLOCK_ELEMENTS, BLOCK_ROW * unit_probs.shape[0])
    for block in window_blocks(unit_probs, clips, overlaps, spans, elements):
        yield BlockRun(block, alive, opening)
