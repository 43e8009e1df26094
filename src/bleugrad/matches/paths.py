"""Expected statistics of paths through a graph (DA-Transformer): tokens along a random path from the first vertex.

With the state (prefix, count) of the automaton of an n-gram, ``a_u = emit(p_u, sum_w E[w, u] a_w)`` for every vertex u,
w < u, and E[min(count, c)] is the sum of the new matches at all vertices, since every path reaches the last one. The
distribution of the length is the same sum without emissions. Both are exact.
"""

from dataclasses import dataclass, field

from torch import Tensor

from bleugrad.backends import operations
from bleugrad.lengths.lengths import Lengths
from bleugrad.matches.method import MatchMethod
from bleugrad.matches.parts import Parts
from bleugrad.matches.statistics import ExpectedStatistics, check_rows, counted_first
from bleugrad.references.ngrams import Patterns
from bleugrad.references.targets import Targets


@dataclass(eq=False)
class Paths:
    """Inputs of the matches along random paths."""

    probs: Tensor  #: (T, B, L), of the tokens ``ids`` at each vertex.
    transitions: Tensor  #: (B, T, T), of the transitions.
    ids: Tensor  #: (B, L), the tokens of the references.
    patterns: Patterns
    limits: Tensor  #: (B,), the number of vertices.
    _exact: tuple[Tensor, Tensor] | None = field(default=None, init=False, repr=False)

    def exact(self) -> tuple[Tensor, Tensor]:
        """Expected clipped matches (B, N), and the distribution of the length (B, T + 1). Exact, computed once."""
        if self._exact is None:
            self._exact = self._walked(self.probs.shape[2])
        return self._exact

    def lengths(self) -> Lengths:
        """The distribution of the length: that of :meth:`exact` if it is known, else from a walk without matches."""
        return Lengths((self._walked(0) if self._exact is None else self._exact)[1])

    def repeated(self, times: int, probs: Tensor, ids: Tensor, patterns: Patterns) -> "Paths":
        """See :class:`bleugrad.matches.parts.Counted`."""
        transitions, limits = (values.repeat_interleave(times, 0) for values in (self.transitions, self.limits))
        return Paths(probs, transitions, ids, patterns, limits)

    def _walked(self, columns: int) -> tuple[Tensor, Tensor]:
        """The outputs of :data:`bleugrad.backends.operations.path_matches` for the first columns."""
        clips, overlaps = self.patterns.clips[..., :columns], self.patterns.overlaps[..., :columns]
        probs, ids = self.probs[..., :columns].contiguous(), self.ids[:, :columns]
        matches, lengths = operations.path_matches(probs, self.transitions, clips, overlaps, ids, self.limits)
        return matches, lengths


def path_statistics(
    match_probs: Tensor, transitions: Tensor, targets: Targets, method: MatchMethod
) -> ExpectedStatistics:
    """Expected statistics of paths, in O(B T^2 (N^2 L + T)) time and O(B T (N^2 L + T)) memory.

    Args:
        match_probs: (B, T, L), the probabilities of ``targets.columns`` at each vertex.
        transitions: (B, T, T), the probability to go from w to u, 0 unless w < u < ``targets.limits``.
        targets: with their patterns.
        method: how matches are expected.
    """
    check_rows(match_probs, targets)
    patterns = targets.patterns
    assert patterns is not None
    probs = counted_first(match_probs, targets).transpose(0, 1)
    paths = Paths(probs, transitions, targets.columns, patterns, targets.limits)
    matches, lengths = method.paths(paths), paths.lengths()
    parts = Parts(matches, paths, targets, method.paths, method.paths_by_length)
    return ExpectedStatistics(matches, lengths, targets.units, parts=parts)
