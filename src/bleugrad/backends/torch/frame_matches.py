"""Expected matches of CTC frames, by the automata of all n-grams."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.operation import Outputs
from bleugrad.backends.torch.automata import Automata, automata
from bleugrad.backends.torch.frame_renewal import frame_matches as renewed_matches
from bleugrad.backends.torch.occurrences import Chunked


def forward(
    keep: bool, token_probs: Tensor, blank: Tensor, clips: Tensor, overlaps: Tensor, ids: Tensor
) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.frame_matches`. Keeps the automata with their states at every frame."""
    if (run := _chunked(token_probs, blank, clips, overlaps, ids)) is not None:
        return run.forward(keep), run
    matches, kept = token_probs.new_zeros(clips.shape[:2]), []
    for group in automata(clips, ids, token_probs.dtype, token_probs.shape[0], merging=True):
        states, state = [], group.start()
        for probs, silence in zip(gathered_probs(token_probs, group), blank[..., None, None, None], strict=True):
            states.append(state)
            state, new = group.emit(probs, state, silence)
            matches[:, group.order] += (new * group.weights).sum((1, 2))
        kept.append((group, states))
    return (matches,), kept if keep else None


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, Tensor]:
    """The gradients of ``token_probs`` and ``blank``."""
    token_probs, blank = inputs[:2]
    if (run := _chunked(*inputs) if kept is None else kept) is not None and isinstance(run, Chunked):
        return run.backward(grads)
    if kept is None:
        _, kept = forward(True, *inputs)
    of_tokens, of_blank = torch.zeros_like(token_probs), torch.zeros_like(blank)
    for group, states in kept:
        gathered, of_state = gathered_probs(token_probs, group), torch.zeros_like(group.start())
        of_new, columns = grads[0][:, group.order, None, None], group.columns.flatten(1)
        for t in range(len(states) - 1, -1, -1):
            of_state, of_probs, of_silence = group.pull(
                of_state, of_new, gathered[t], states[t], blank[t, :, None, None, None]
            )
            of_tokens[t].scatter_add_(1, columns, of_probs.flatten(1))
            of_blank[t] += of_silence
    return of_tokens, of_blank


def _chunked(*inputs: Tensor) -> Chunked | None:
    """The matches without a walk over the frames, where that is possible."""
    return Chunked.of(lambda *parts: (renewed_matches(*parts),), (1, 1, 0, 1, 0), *inputs)


def gathered_probs(token_probs: Tensor, group: Automata) -> Tensor:
    """The probabilities of the tokens of the targets, (T, B, M, J)."""
    steps = token_probs.shape[0]
    columns = group.columns.flatten(1).expand(steps, -1, -1)
    return token_probs.gather(2, columns).view(steps, *group.columns.shape)
