"""The n-grams of a batch as the C functions read them."""

from torch import Tensor

from bleugrad.backends.c.library import Problem, fields

CHUNK = 256
"""Reference columns of a sentence that a thread takes at a time, a multiple of the lanes in ``common.h``."""


class NgramProblem(Problem):
    """The struct ``Patterns`` of ``windows.h``. ``begin`` and ``apart`` select the chunks of columns of a call."""

    _fields_ = fields(
        "steps batch columns orders chunk apart begin step row", "units clips overlaps spans alive opening"
    )


def sizes(units: Tensor, orders: int) -> tuple[int, ...]:
    """The sizes of a problem with contiguous ``units`` (T, B, L) that one call solves."""
    steps, batch, columns = units.shape
    return steps, batch, columns, orders, CHUNK, 1, 0, batch * columns, columns
