"""Matches of CTC frames without a walk over them, for devices that are not waited for.

A token is *new* at the frame where its run begins. With p_i the probabilities of the n-gram's tokens at each frame, b
that of blank, and r < u, or r < u - 1 where g_i = g_{i+1}, ::

    K_i(w, u) = p_{i+1}(u) sum_r (prod_{w < s <= r} p_i(s)) (prod_{r < s < u} b(s))
    F(w, u) = p_1(u) (1 - p_1(u - 1)), u > w + 1,        F(w, w + 1) = p_1(w + 1) [g_1 != g_n]

are the probabilities that g_{i+1} is new at u and the next token after g_i, which is new at w, and that g_1 is new at u
if g_n is new at w. So ``tail_j = K_{n-j} tail_{j-1}`` and ``window = F tail_{n-1}``; the rest is in ``occurrences.py``.
The sums over r are solved for: with S the shift by one frame they are (I - S diag(p_i))^-1 (I - S diag(b))^-1 S.
"""

import torch
from torch import Tensor

from bleugrad.backends.torch.occurrences import expected_matches, first_order, slot_columns, slot_probs
from bleugrad.backends.torch.slots import Slots


def frame_matches(token_probs: Tensor, blank: Tensor, clips: Tensor, overlaps: Tensor, ids: Tensor) -> Tensor:
    """The expected matches (B, N)."""
    steps, orders = token_probs.shape[0], clips.shape[1]
    slots = Slots.of(clips, steps)
    probs = slot_probs(token_probs, slots)
    tokens = ids.gather(1, slot_columns(slots)).view(*clips.shape, orders)
    eye = torch.eye(steps + 2, device=blank.device, dtype=blank.dtype)
    identity, shift = eye[:-1, :-1], eye[1:, :-1]  # shift[r, r + 1] is 1
    blanks = _solved(identity - shift * torch.nn.functional.pad(blank.t(), (1, 0))[:, None], shift)
    begins, following = first_order(probs[0])
    firsts, rest = [begins], None
    tails: list[Tensor] = []
    heads: list[Tensor] = []
    for back in range(1, orders):
        merged = (tokens[:, back:, :, back] == tokens[:, back:, :, back - 1])[..., None, None]
        tail = _solved(identity - shift * probs[back], blanks[:, None, None] - shift * merged) * following
        tail = tail if rest is None else tail @ rest
        head, rest = first_order(tail)
        begins, following = first_order(probs[back])
        for parts, part in ((tails, tail), (heads, head), (firsts, begins)):
            parts.append(part)
    windows = _fresh(torch.cat(firsts, 1), tokens, shift)
    if heads:
        shortest, longer = first_order(windows)
        windows = torch.cat([shortest, longer @ torch.cat(heads, 1)], 1)
    return expected_matches(windows, tails, overlaps, slots)


def _fresh(first: Tensor, tokens: Tensor, shift: Tensor) -> Tensor:
    """F, (B, N, L, T + 1, T + 1), from p_1 (B, N, L, 1, T + 1); any token is new after the one before the start."""
    begins = tokens.diagonal(0, 1, 3).transpose(1, 2)
    start = torch.arange(shift.shape[0], device=shift.device)[:, None] == 0
    differs = (begins != tokens[..., 0])[..., None, None] | start
    later = torch.ones_like(shift).triu_(2)
    before = torch.nn.functional.pad(first[..., :-1], (1, 0))
    return first * ((1 - before) * later + differs * shift)


def _solved(matrix: Tensor, wanted: Tensor) -> Tensor:
    """The inverse of a unit upper triangular matrix times another one."""
    found: Tensor = torch.linalg.solve_triangular(matrix, wanted.expand(matrix.shape), upper=True, unitriangular=True)
    return found
