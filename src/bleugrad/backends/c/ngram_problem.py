"""The n-grams of a batch as the C functions read them."""

from torch import Tensor

LANES = 16
"""As in ``common.h``; exact matches of more orders are computed by torch."""

CHUNK = 256
"""Reference columns of a sentence that a thread takes at a time, a multiple of the lanes in ``common.h``."""


def sizes(units: Tensor, orders: int) -> tuple[int, ...]:
    """The sizes of the struct ``Patterns`` in ``windows.h``, for contiguous units (T, B, L) that one call takes."""
    steps, batch, columns = units.shape
    return steps, batch, columns, orders, CHUNK, 1, 0, batch * columns, columns
