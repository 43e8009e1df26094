"""The n-grams of the references: how often they occur, and which overlap themselves."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Patterns:
    """The patterns whose occurrences are counted, one for each order and each column it may start at.

    A pattern of order n is the n units (tokens, or words of several tokens) from its column on. The references of a
    sentence are laid end to end on L = K * R columns. The clip of a distinct n-gram g is c_g = max over references of
    count(g) at its first occurrence and 0 elsewhere.
    """

    clips: Tensor  #: (B, N, L), how often matches of the pattern count.
    overlaps: Tensor  #: (D, B, N, L), True at d - 1 where the pattern equals itself shifted by d units.
    spans: Tensor | None = None  #: (B, L), tokens of each unit; None where each is one.
