"""What every score has in common."""

from typing import Protocol

from torch import Tensor

from bleugrad.distributed import Pool
from bleugrad.matches.statistics import ExpectedStatistics


class Score(Protocol):
    """A number made of expected statistics. A new score is a class with these two members."""

    @property
    def max_order(self) -> int:
        """The highest n-gram order it needs."""

    def value(self, statistics: ExpectedStatistics, level: str, pool: Pool | None) -> Tensor:
        """The score of each sentence, (B,), or of the whole batch: ``level`` is "sentence" or "corpus".

        At corpus level ``pool`` sums over processes; None where one process holds the batch.
        """
