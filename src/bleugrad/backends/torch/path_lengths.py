"""Expected matches along the paths of a graph for every length of the path."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from bleugrad.backends.torch.automata import automata


def path_matches_by_length(
    token_probs: Tensor, transitions: Tensor, clips: Tensor, ids: Tensor, limits: Tensor
) -> Tensor:
    """E[O_n; length = l], (B, N, T + 1). Exact; the arguments are those of ``operations.path_matches``.

    The automata of ``path_matches.py`` with the number of tokens so far as one more state, and
    the matches so far carried along: M_u = new_u + sum_w E[w, u] M_w. O(B T^3 N L) time and O(B T^2 N L) memory.
    """
    steps, batch, _ = token_probs.shape
    groups = automata(clips, ids, token_probs.dtype, steps, merging=False)
    found = []
    for group in groups:
        probs = group.gathered(token_probs)
        states: list[Tensor] = []
        reached: list[Tensor] = []
        total = token_probs.new_zeros(batch, steps + 1)
        for u in range(steps):
            if u == 0:
                state = pad(group.start().unsqueeze(2), (0, 0, 0, steps))
                so_far = torch.zeros_like(total)
            else:
                arrive = transitions[:, :u, u].unbind(1)
                state, so_far = _mixed(arrive, states), _mixed(arrive, reached)
            flow = probs[u].unsqueeze(2) * (state @ group.table)
            new, linked = flow[..., -1], group.linked.unsqueeze(2)
            risen = linked * new.roll(1, 1)
            moved = flow[..., :-1] + risen.unsqueeze(3) * group.landing.unsqueeze(2)
            state = torch.cat([(state[..., 0] - new + risen).unsqueeze(3), moved], 3)
            states.append(pad(state, (0, 0, 1, 0))[:, :, :-1])
            reached.append(pad(so_far + (new * group.used.unsqueeze(2)).sum(1), (1, 0))[:, :-1])
            total = torch.where((limits == u + 1)[:, None], reached[-1], total)
        found.append(total)
    return torch.stack(found, 1)


def _mixed(weights: tuple[Tensor, ...], values: list[Tensor]) -> Tensor:
    """The sum of the values (B, ...) with weights (B,)."""
    mixed = torch.zeros_like(values[0])
    for weight, value in zip(weights, values, strict=True):
        mixed = torch.addcmul(mixed, weight.view(-1, *(1,) * (value.dim() - 1)), value)
    return mixed
