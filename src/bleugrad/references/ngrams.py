"""The n-grams of the references: how often they occur, and which overlap themselves."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Patterns:
    """The patterns whose occurrences are counted, one for each order and each column it may start at.

    A pattern of order n is the n units (tokens, or words of several tokens) from its column on. The references of a
    sentence are laid end to end on L = K * R columns. ``clips`` (B, N, L): how often its matches count, the clip c_g =
    max over references of count(g) at the first occurrence of a distinct n-gram and 0 elsewhere.
    ``overlaps`` (D, B, N, L): True at d - 1 where the pattern equals itself shifted by d units. ``spans`` (B, L):
    tokens of each unit, None where each is one.
    """

    clips: Tensor
    overlaps: Tensor
    spans: Tensor | None = None
