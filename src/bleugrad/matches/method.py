"""What every match method has in common."""

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from bleugrad.matches.frames import Frames
    from bleugrad.matches.paths import Paths
    from bleugrad.matches.statistics import RowWindows


class MatchMethod:
    """How expected matches are computed from the probabilities of the reference's tokens.

    A new method is a subclass with a name and one or more of the three functions below. Each returns the expected
    matches of every order, (B, N), differentiable. A function that is not defined refuses the kind of output.
    """

    name = ""

    def __repr__(self) -> str:
        return repr(self.name)

    def rows(self, windows: "RowWindows") -> Tensor:
        """Matches of independent rows."""
        raise self._undefined("rows of logits")

    def rows_by_length(self, windows: "RowWindows") -> Tensor | None:
        """Matches of independent rows for every length, (B, N, S); None where they are not known."""
        return None

    def frames(self, frames: "Frames") -> Tensor:
        """Matches of CTC frames."""
        raise self._undefined("CTC")

    def paths(self, paths: "Paths") -> Tensor:
        """Matches of paths through a graph."""
        raise self._undefined("Graph")

    def paths_by_length(self, paths: "Paths") -> Tensor | None:
        """Matches of paths for every length, (B, N, T + 1); None where they are not known."""
        return None

    def _undefined(self, kind: str) -> ValueError:
        found = f"method is {self.name!r}, but {kind} has no such matches"
        return ValueError(f"{found}; expected another method, such as 'exact'")
