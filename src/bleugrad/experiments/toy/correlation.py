"""How two curves go together: linear and rank correlation."""

from collections.abc import Sequence

import numpy as np


def pearson(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Linear correlation, -1..1; None where one of the two does not vary.

    Example:
        >>> pearson([1, 2, 3], [2, 4, 6.5])
        0.997...
    """
    x, y = (np.asarray(values, dtype=float) - np.mean(values) for values in (left, right))
    scale = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / scale if scale > 0 else None


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Rank correlation, -1..1: 1 if they always rise together; equal values share their mean rank."""
    return pearson(_ranks(left).tolist(), _ranks(right).tolist())


def _ranks(values: Sequence[float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    _, inverse, counts = np.unique(np.asarray(values, dtype=float), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]
