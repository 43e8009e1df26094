"""Expected clipped matches, exactly: E[O_n] = sum over distinct reference n-grams g of E[min(count(g), c_g)].

With q_e the probability that the window ending at e is the n-gram g of m tokens, tail(e, d) that of its last d tokens
standing there, D the shifts at which g overlaps itself, and a_e the probability that token e does not end the
sequence::

    u^k_e = q_e N^k_{e-m} - sum_{d in D} tail(e, d) v^k_{e-d},        v^k_e = u^k_e - u^{k-1}_e
    N^k_e = a_e N^k_{e-1} - v^k_e,                                    N^1_{-1} = 1, all else 0 before the start

and E[min(count(g), c)] = sum_e sum_{k=1..c} u^k_e. ``backends/torch/renewal.py`` derives it and adds words.
"""

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from bleugrad.backends import operations
from bleugrad.backends.torch.path_lengths import path_matches_by_length
from bleugrad.matches.method import MatchMethod

if TYPE_CHECKING:
    from bleugrad.matches.frames import Frames
    from bleugrad.matches.paths import Paths
    from bleugrad.matches.statistics import RowWindows


class Exact(MatchMethod):
    """E[min(count, c)]: **exact** for every kind of output."""

    name = "exact"

    def rows(self, windows: "RowWindows") -> Tensor:
        """The sum over positions of :func:`completed_matches`."""
        return completed_matches(windows).sum(0)

    def rows_by_length(self, windows: "RowWindows") -> Tensor | None:
        """See :func:`matches_by_length`; in words they are not known."""
        return matches_by_length(windows) if windows.opening is None else None

    def frames(self, frames: "Frames") -> Tensor:
        """See :mod:`bleugrad.matches.frames`."""
        patterns = frames.patterns
        inputs = (frames.probs, frames.blank, patterns.clips, patterns.overlaps, frames.ids)
        return cast(Tensor, operations.frame_matches(*inputs))

    def paths(self, paths: "Paths") -> Tensor:
        """See :mod:`bleugrad.matches.paths`."""
        return paths.exact()[0]

    def paths_by_length(self, paths: "Paths") -> Tensor:
        """See :mod:`bleugrad.backends.torch.path_lengths`."""
        return path_matches_by_length(paths.probs, paths.transitions, paths.patterns.clips, paths.ids, paths.limits)


def completed_matches(windows: "RowWindows") -> Tensor:
    """Expected new clipped matches completed at each position, (T, B, N): their sum over T is E[O_n]. Exact.

    Computed once: the exact method and certified intervals use the same. In words, a match that ends at t counts with
    the probability that the next token opens a word or the sequence ends. O(T B N L) time. Memory is one (T, B, L)
    gradient and a few working tensors of a block of n-grams. No logarithm or division occurs.
    """
    if windows.completed is None:
        patterns, alive = windows.patterns, None if windows.ending is None else windows.ending.alive
        inputs = (windows.probs, alive, windows.opening, patterns.clips, patterns.overlaps, patterns.spans)
        matches: Tensor = operations.exact_matches(*inputs)
        windows.completed = matches if windows.boundary is None else matches * windows.boundary[..., None]
    return windows.completed


def matches_by_length(windows: "RowWindows") -> Tensor:
    """Joint expectations E[O_n; length = l] for every possible length in tokens, (B, N, S). Exact."""
    completed = completed_matches(windows)
    if windows.ending is None:
        return completed.sum(0).unsqueeze(2)
    reached = [completed.new_zeros(completed.shape[1:])]
    for new, alive in zip(completed, windows.ending.alive, strict=True):
        reached.append(reached[-1] * alive[:, None] + new)
    return torch.stack(reached, 2) * windows.ending.stop[:, None, :]
