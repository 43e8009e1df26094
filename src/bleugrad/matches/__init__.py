"""Expected clipped n-gram matches. Each method is an object: exact, the bound of the paper, or clipped means."""

from bleugrad.matches.bound import Bound
from bleugrad.matches.clipped_mean import ClippedMean
from bleugrad.matches.exact import Exact
from bleugrad.matches.method import MatchMethod

__all__ = ["Bound", "ClippedMean", "Exact", "MatchMethod", "as_method"]

METHODS: dict[str, MatchMethod] = {method.name: method for method in (Exact(), Bound(), ClippedMean())}
"""The methods that users choose by name."""


def as_method(value: object) -> MatchMethod:
    """Return a method as it is, and a name as the method of that name."""
    if isinstance(value, MatchMethod):
        return value
    if isinstance(value, str) and value in METHODS:
        return METHODS[value]
    raise ValueError(f"method is {value!r}; expected {' or '.join(map(repr, METHODS))}, or a MatchMethod")
