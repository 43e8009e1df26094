"""Expected statistics of paths through a graph (DA-Transformer): tokens along a random path from the first vertex.

With the state (prefix, count) of the automaton of an n-gram, ``a_u = emit(p_u, sum_w E[w, u] a_w)`` for every vertex u,
w < u, and E[min(count, c)] is the sum of the new matches at all vertices, since every path reaches the last one. The
distribution of the length is the same sum without emissions. Both are exact.
"""

from torch import Tensor

from bleugrad.backends import operations
from bleugrad.backends.torch.row_windows import counted_first
from bleugrad.lengths.lengths import Lengths
from bleugrad.matches.clipped_mean import clipped, path_counts
from bleugrad.matches.statistics import ExpectedStatistics
from bleugrad.references.targets import Targets


def path_statistics(match_probs: Tensor, transitions: Tensor, targets: Targets, method: str) -> ExpectedStatistics:
    """Expected statistics of paths.

    Args:
        match_probs: (B, T, L), the probabilities of ``targets.columns`` at each vertex.
        transitions: (B, T, T), the probability to go from w to u, 0 unless w < u < ``targets.limits``.
        targets: with their patterns.
        method: "exact" or "clipped_mean".

    O(B T^2 (N^2 L + T)) time, O(B T (N^2 L + T)) memory.
    """
    patterns = targets.patterns
    assert patterns is not None
    clips, match_probs = patterns.clips, counted_first(match_probs, targets.order, targets.limits)
    tokens, overlaps, ids = match_probs.transpose(0, 1), patterns.overlaps, targets.columns
    counted = clips
    if method != "exact":  # the distribution of the length only
        tokens, overlaps, ids, counted = (part[..., :0] for part in (tokens, overlaps, ids, clips))
    matches, probs = operations.path_matches(tokens.contiguous(), transitions, counted, overlaps, ids, targets.limits)
    if method != "exact":
        matches = clipped(path_counts(match_probs, transitions, clips.shape[1]), clips)
    lengths = Lengths(probs)
    return ExpectedStatistics(matches, lengths.mean_totals(clips.shape[1]), lengths, targets.units)
