"""Clipped expected counts, sum_g min(E[count(g)], c_g): the bag-of-n-grams objective of published one-pass models.

BoN (Shao et al., 2020) for independent rows, NMLA (Shao and Feng, 2022) for CTC and FA-DAT (Ma et al., 2023) for graphs
train on one order of it. It is an upper bound of E[O_n], since min is concave, and not differentiable at the clip. It
is a baseline here; :func:`~bleugrad.matches.exact.completed_matches` has the expectation of clipped counts.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bleugrad.matches.method import MatchMethod

if TYPE_CHECKING:
    from bleugrad.matches.frames import Frames
    from bleugrad.matches.paths import Paths
    from bleugrad.matches.statistics import RowWindows


class ClippedMean(MatchMethod):
    """min(E[count], c) of tokens: an **upper bound** for every kind of output."""

    name = "clipped_mean"

    def rows(self, windows: "RowWindows") -> Tensor:
        """See :func:`row_counts`."""
        if windows.opening is not None:
            raise ValueError("method is 'clipped_mean', but word_start is given; expected 'exact' or 'bound' in words")
        survival, clips = None if windows.ending is None else windows.ending.survival, windows.patterns.clips
        return clipped(row_counts(windows.probs, clips.shape[1], survival), clips)

    def frames(self, frames: "Frames") -> Tensor:
        """See :func:`frame_counts`."""
        clips = frames.patterns.clips
        return clipped(frame_counts(frames.probs, frames.blank, frames.ids, clips.shape[1]), clips)

    def paths(self, paths: "Paths") -> Tensor:
        """See :func:`path_counts`."""
        clips = paths.patterns.clips
        return clipped(path_counts(paths.probs.transpose(0, 1), paths.transitions, clips.shape[1]), clips)


def clipped(counts: Tensor, clips: Tensor) -> Tensor:
    """sum_g min(E[count(g)], c_g): (B, N, L) each to (B, N). Counts of columns without a clip do not matter."""
    return torch.minimum(counts, clips.to(counts.dtype)).sum(2)


def row_counts(token_probs: Tensor, max_order: int, survival: Tensor | None) -> Tensor:
    """E[count] of the n-gram from each column on, for independent rows: (T, B, L) to (B, N, L). Exact.

    The sum over starts of the product of the tokens' probabilities. ``survival`` (T, B) is the probability that none of
    the tokens 0..t ends the sequence; None where the length is fixed.
    """
    before = None if survival is None else torch.nn.functional.pad(survival[:-1], (0, 0, 1, 0), value=1.0)
    window = token_probs if before is None else token_probs * before[..., None]
    counts = []
    for order in range(max_order):
        if order:
            window = window[:-1] * shifted(token_probs, order)[order:]
        counts.append(window.sum(0))
    return torch.stack(counts, 1)


def frame_counts(token_probs: Tensor, blank: Tensor, ids: Tensor, max_order: int) -> Tensor:
    """E[count] of the n-gram from each column on, for CTC frames: (T, B, L), and (T, B) for blank, to (B, N, L). Exact.

    The recursion of :mod:`bleugrad.matches.frames` without the condition that the n-gram has not occurred before.
    """
    columns = torch.stack([shifted(token_probs, s) for s in range(max_order)])
    tokens = torch.stack([shifted(ids, s) for s in range(max_order)])
    differs, last = tokens[1:] != tokens[:-1], torch.zeros_like(ids, dtype=token_probs.dtype)
    symbol = blanks = token_probs.new_zeros(max_order - 1, *ids.shape)
    counts = token_probs.new_zeros(max_order, *ids.shape)
    for t in range(token_probs.shape[0]):
        new = columns[1:, t] * (blanks + symbol * differs)
        counts = counts + torch.cat([(columns[0, t] * (1 - last)).unsqueeze(0), new])
        blanks = blank[t][:, None] * (symbol + blanks)
        last, stays = columns[0, t], columns[1:-1, t] * symbol[1:]
        symbol = torch.cat([last.unsqueeze(0), new[:-1] + stays])[: max_order - 1]
    return counts.transpose(0, 1)


def path_counts(token_probs: Tensor, transitions: Tensor, max_order: int) -> Tensor:
    """E[count] of the n-gram from each column on, along random paths: (B, T, L), (B, T, T) to (B, N, L). Exact.

    The probability r of visiting each vertex solves r = e_0 + r E.
    """
    batch, steps, _ = token_probs.shape
    start = token_probs.new_zeros(batch, steps, 1)
    start[:, :1] = 1
    system = torch.eye(steps, device=start.device, dtype=start.dtype) - transitions.mT
    window = token_probs * torch.linalg.solve_triangular(system, start, upper=False, unitriangular=True)
    counts = [window.sum(1)]
    for order in range(1, max_order):
        window = (transitions.mT @ window) * shifted(token_probs, order)
        counts.append(window.sum(1))
    return torch.stack(counts, 1)


def shifted(columns: Tensor, number: int) -> Tensor:
    """The entry that many columns on, 0 past the end: (..., L) to (..., L)."""
    return torch.nn.functional.pad(columns[..., number:], (0, min(number, columns.shape[-1])))
