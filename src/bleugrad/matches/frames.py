"""Expected statistics of CTC frames: the output is what is left after repeated symbols are merged and blanks removed.

For an n-gram g = g_1..g_n that counts once and does not overlap itself, with q_s = P_t(g_s), b = P_t(blank), A the
probability that g has not occurred yet, and x_s, z_s those that it had not occurred before the last s tokens, which are
g_1..g_s, and the last frame is g_s, or blank::

    new match  u    = q_n (z_{n-1} + x_{n-1} [g_{n-1} != g_n])              (n = 1: q_1 A)
    z_s  <-  b   (x_s + z_s)                                                s = 1..n-1
    x_s  <-  q_s (x_s + z_{s-1} + x_{s-1} [g_{s-1} != g_s])                 s = 2..n-1, old values on the right
    x_1  <-  q_1 A,     A  <-  A - u,      E[match] = sum of u              a repeated g_1 is merged

Clips above 1 and n-grams that overlap themselves need an automaton, ``backends/torch/automata.py``.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from bleugrad.lengths.frames import frame_lengths
from bleugrad.matches.method import MatchMethod
from bleugrad.matches.parts import Parts
from bleugrad.matches.statistics import ExpectedStatistics, check_rows, counted_first
from bleugrad.references.ngrams import Patterns
from bleugrad.references.targets import Targets


@dataclass(frozen=True)
class Frames:
    """Inputs of the matches of CTC frames, time first."""

    probs: Tensor  #: (T, B, L), of the tokens ``ids``.
    blank: Tensor  #: (T, B), of blank.
    ids: Tensor  #: (B, L), the tokens of the references.
    patterns: Patterns

    def repeated(self, times: int, probs: Tensor, ids: Tensor, patterns: Patterns) -> "Frames":
        """See :class:`bleugrad.matches.parts.Counted`."""
        return replace(self, probs=probs, blank=self.blank.repeat_interleave(times, 1), ids=ids, patterns=patterns)


def frame_statistics(
    match_probs: Tensor, repeated: Tensor, targets: Targets, method: MatchMethod
) -> ExpectedStatistics:
    """Expected statistics of CTC frames.

    Args:
        match_probs: (B, T, L + 1), the probabilities of ``targets.columns``, then of blank.
        repeated: (B, T), the probability that a frame repeats the symbol of the frame before it.
        targets: with their patterns.
        method: how matches are expected; exact ones take O(T B N^2 L) time.

    E[length] is exact, and its distribution a surrogate: see :func:`bleugrad.lengths.frames.frame_lengths`.
    """
    check_rows(match_probs, targets)
    patterns = targets.patterns
    assert patterns is not None
    probs = counted_first(match_probs, targets).transpose(0, 1)
    frames = Frames(probs[..., :-1].contiguous(), probs[..., -1].contiguous(), targets.columns, patterns)
    lengths = frame_lengths(frames.blank.t(), counted_first(repeated, targets), targets.limits)
    matches = method.frames(frames)
    parts = Parts(matches, frames, targets, method.frames, lambda _: None)
    return ExpectedStatistics(matches, lengths, targets.units, parts=parts)
