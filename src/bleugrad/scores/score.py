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


def check_score(score: object) -> None:
    """Raise unless ``score`` has the members of a :class:`Score`."""
    if isinstance(score, type) or not (hasattr(score, "max_order") and callable(getattr(score, "value", None))):
        raise TypeError(f"score is {score!r}; expected a score, such as bleugrad.ROUGE(2) or bleugrad.BLEU()")
