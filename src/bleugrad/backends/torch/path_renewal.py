"""Matches along the paths of a graph without a walk over its vertices, for devices that are not waited for.

With E the transitions, p_j(u) the probability of the j-th last token of an n-gram at vertex u, and a vertex before the
first one that certainly leads to it, ::

    tail_j = E diag(p_j) tail_{j-1},        V = I + E + E^2 + ... = (I - E)^-1,        window = V tail_n

are the probabilities that the last j tokens stand on the path after w and end at u, that a path from w visits u, and
that the n-gram stands anywhere after w and ends at u. The rest is in ``occurrences.py``. About fifteen matrices of T^2
numbers for each slot.
"""

import torch
from torch import Tensor

from bleugrad.backends.torch.occurrences import expected_matches, first_order, slot_probs
from bleugrad.backends.torch.slots import Slots


def path_lengths(transitions: Tensor, limits: Tensor) -> Tensor:
    """The distribution of the number of vertices of a path from the first one to vertex ``limits - 1``, (B, T + 1).

    The rows of E^l from the first vertex, doubled in number by E^1, E^2, E^4, ...: log2 T rounds, O(B T^2 log T)
    memory.
    """
    batch, steps = transitions.shape[:2]
    vertex = torch.arange(steps, device=limits.device)
    rows = (vertex == 0).to(transitions.dtype).expand(batch, 1, -1)
    power = transitions.triu(1)
    while rows.shape[1] < steps:
        rows = torch.cat([rows, rows @ power], 1)
        power = power @ power if rows.shape[1] < steps else power
    last = (limits - 1).clamp(min=0)[:, None, None].expand(-1, steps, 1)
    found = rows[:, :steps].gather(2, last).squeeze(2) * (limits > 0)[:, None]
    return torch.cat([(limits == 0).to(found.dtype)[:, None], found], 1)


def path_matches(token_probs: Tensor, transitions: Tensor, clips: Tensor, overlaps: Tensor) -> Tensor:
    """The expected matches (B, N)."""
    slots, orders = Slots.of(clips, token_probs.shape[0]), clips.shape[1]
    probs, edges = slot_probs(token_probs, slots), torch.nn.functional.pad(transitions.triu(1), (1, 0, 1, 0))
    edges[:, 0, 1] = 1
    identity = torch.eye(edges.shape[1], device=edges.device, dtype=edges.dtype)
    visits = torch.linalg.solve_triangular(identity - edges, identity.expand_as(edges), upper=True, unitriangular=True)
    windows, tails, tail = [], [], edges[:, None, None] * probs[0]
    for shift in range(orders):
        window, tail = first_order(tail)
        windows.append(window)
        if shift + 1 < orders:
            tails.append(tail)
            tail = edges[:, None, None] @ (probs[shift + 1].mT * tail)
    return expected_matches(visits[:, None, None] @ torch.cat(windows, 1), tails, overlaps, slots)
