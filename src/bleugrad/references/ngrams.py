"""The n-grams of the references: how often they occur, and which overlap themselves."""

from dataclasses import dataclass

from torch import Tensor

from bleugrad.backends import operations
from bleugrad.references.sequences import References


@dataclass(frozen=True)
class Patterns:
    """The patterns whose occurrences are counted, one for each order and each column it may start at.

    A pattern of order n is the n units (tokens, or words of several tokens) from its column on. ``clips`` (B, N, L):
    how often its matches count, the multiplicity c_g at the first occurrence of a distinct n-gram and 0 elsewhere.
    ``overlaps`` (D, B, N, L): True at d - 1 where the pattern equals itself shifted by d units. ``spans`` (B, L):
    tokens of each unit, None where each is one.
    """

    clips: Tensor
    overlaps: Tensor
    spans: Tensor | None = None


def reference_patterns(references: References, max_order: int, spans: Tensor | None = None) -> Patterns:
    """The distinct n-grams of each sentence's references, with the clip c_g = max over references of count(g).

    The references of a sentence are laid end to end on L = K * R columns.
    """
    return Patterns(*operations.ngram_clips(references.ids, references.lengths, max_order), spans)
