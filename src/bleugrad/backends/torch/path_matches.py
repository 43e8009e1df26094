"""Expected matches along the paths of a graph, by the automata of all n-grams, and the distribution of path lengths."""

from typing import Any

import torch
from torch import Tensor

from bleugrad.backends.dispatch import Outputs
from bleugrad.backends.torch.automata import automata


def forward(
    keep: bool, token_probs: Tensor, transitions: Tensor, clips: Tensor, overlaps: Tensor, ids: Tensor, limits: Tensor
) -> tuple[Outputs, Any]:
    """See :data:`bleugrad.backends.operations.path_matches`. Keeps the states after each vertex and before it."""
    steps, batch, _ = token_probs.shape
    groups = automata(clips, ids, token_probs.dtype, steps, merging=False)
    gathered = [group.gathered(token_probs) for group in groups]
    sizes = [group.start()[0].numel() for group in groups]
    matches = token_probs.new_zeros(clips.shape[:2])
    after = token_probs.new_zeros(batch, steps, steps + 1 + sum(sizes))
    before = torch.zeros_like(after)
    if steps:
        starts = [group.start().flatten(1) for group in groups]
        before[:, 0, steps + 1 :] = torch.cat(starts, 1) if starts else 0
        before[:, 0, 0] = 1
    for u in range(steps):
        if u:
            before[:, u] = (transitions[:, None, :u, u] @ after[:, :u]).squeeze(1)
        length, *states = before[:, u].split([steps + 1, *sizes], 1)
        after[:, u, 1 : steps + 1] = length[:, :-1]
        first = steps + 1
        for group, probs, flat in zip(groups, gathered, states, strict=True):
            state, new = group.emit(probs[u], flat.view_as(group.start()), None)
            after[:, u, first : first + flat.shape[1]] = state.flatten(1)
            matches[:, group.order] += (new * group.used).sum(1)
            first += flat.shape[1]
    return (matches, at_last(after, limits)), (groups, gathered, before, after) if keep else None


def at_last(after: Tensor, limits: Tensor) -> Tensor:
    """The distribution of the length (B, T + 1) from the rows of the vertices (B, T, T + 1 and more)."""
    batch, steps, _ = after.shape
    found = after.new_zeros(batch, steps + 1)
    if steps:
        found = after[torch.arange(batch, device=after.device), limits - 1, : steps + 1]
    empty = (torch.arange(steps + 1, device=after.device) == 0).to(after.dtype)
    return torch.where(limits[:, None] > 0, found, empty)


def lengths_gradient(after: Tensor, limits: Tensor, grad: Tensor | None) -> Tensor:
    """Adjoint of :func:`at_last`: 0 except for the lengths at the last vertex."""
    found = torch.zeros_like(after)
    steps = after.shape[1]
    if grad is not None:
        ends = torch.arange(steps, device=limits.device) == limits[:, None] - 1
        found[..., : steps + 1] = ends[..., None] * grad[:, None]
    return found


def backward(kept: Any, needs: Any, grads: Any, outputs: Outputs, inputs: Any) -> tuple[Tensor, Tensor]:
    """The gradients of ``token_probs`` and ``transitions``."""
    token_probs, transitions, *_, limits = inputs
    groups, gathered, before, after = forward(True, *inputs)[1] if kept is None else kept
    steps = token_probs.shape[0]
    of_tokens, of_before = torch.zeros_like(token_probs), torch.zeros_like(before)
    of_after = lengths_gradient(after, limits, grads[1])
    of_matches = torch.zeros_like(outputs[0]) if grads[0] is None else grads[0]
    for u in range(steps - 1, -1, -1):
        of_before[:, u, :steps] = of_after[:, u, 1 : steps + 1]
        first = steps + 1
        for group, probs in zip(groups, gathered, strict=True):
            like = group.start()
            here = slice(first, first + like[0].numel())
            first = here.stop
            of_state, of_probs, _ = group.pull(
                of_after[:, u, here].view_as(like),
                of_matches[:, group.order, None],
                probs[u],
                before[:, u, here].view_as(like),
                None,
            )
            of_before[:, u, here] = of_state.flatten(1)
            of_tokens[u].scatter_add_(1, group.columns.flatten(1), of_probs.flatten(1))
        of_after[:, :u] += transitions[:, :u, u, None] * of_before[:, u, None]
    return of_tokens, (after @ of_before.mT).triu(1)
