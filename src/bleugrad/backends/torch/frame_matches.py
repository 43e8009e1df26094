"""Expected matches of CTC frames, by the automata of all n-grams."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.automata import automata


def forward(
    keep: bool, token_probs: Tensor, blank: Tensor, clips: Tensor, overlaps: Tensor, ids: Tensor
) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.frame_matches`. Keeps the automata with their states at every frame.

    O(T B N^2 L) time and memory, with a few operations for each frame and order.
    """
    matches, kept = token_probs.new_zeros(clips.shape[:2]), []
    for group in automata(clips, ids, token_probs.dtype, token_probs.shape[0], merging=True):
        states, state = [], group.start()
        for probs, silence in zip(group.gathered(token_probs), blank[..., None, None], strict=True):
            if keep:
                states.append(state)
            state, new = group.emit(probs, state, silence)
            matches[:, group.order] += (new * group.used).sum(1)
        kept.append((group, states))
    return (matches,), kept if keep else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, Tensor]:
    """The gradients of ``token_probs`` and ``blank``."""
    token_probs, blank = inputs[:2]
    if kept is None:
        _, kept = forward(True, *inputs)
    of_tokens, of_blank = torch.zeros_like(token_probs), torch.zeros_like(blank)
    for group, states in kept:
        gathered, of_state = group.gathered(token_probs), torch.zeros_like(group.start())
        of_new, columns = grads[0][:, group.order, None], group.columns.flatten(1)
        for t in reversed(range(len(states))):
            of_state, of_probs, of_silence = group.pull(
                of_state, of_new, gathered[t], states[t], blank[t, :, None, None]
            )
            of_tokens[t].scatter_add_(1, columns, of_probs.flatten(1))
            of_blank[t] += of_silence
    return of_tokens, of_blank
