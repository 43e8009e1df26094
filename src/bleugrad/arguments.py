"""Checks of options: every message names the argument, what was found and what is expected."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

LEVELS = ("sentence", "corpus")
LARGEST_ORDER = 100
SMALLEST_FLOAT, LARGEST_FLOAT = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if value not in choices:
        expected = " or ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} is {value!r}; expected {expected}")
    return value


def check_order(max_order: object) -> int:
    """Return ``max_order`` as an int from 1 to ``LARGEST_ORDER``."""
    order = check_int("max_order", max_order)
    if not 1 <= order <= LARGEST_ORDER:
        raise ValueError(f"max_order is {order}; expected 1 to {LARGEST_ORDER} (BLEU-4 is max_order=4)")
    return order


def check_int(name: str, value: object) -> int:
    """Return ``value`` if it is an int of 64 bits, as in a tensor."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}; expected an int")
    if value.bit_length() > 63:
        raise ValueError(f"{name} is an int of {value.bit_length()} bits; expected at most 63 and a sign")
    return value


def check_id(name: str, value: object, vocabulary: int) -> int:
    """Return ``value`` if it is an id of the vocabulary."""
    if not 0 <= (found := check_int(name, value)) < vocabulary:
        raise ValueError(f"{name} is {value}; expected an id of the vocabulary, 0 to {vocabulary - 1}")
    return found


def check_nonnegative(name: str, value: float) -> float:
    """Return ``value`` as a float that is 0 or a positive normal number of float32: 1 / value is finite, too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}; expected a number")
    if isinstance(value, int):
        check_int(name, value)
    if value != 0 and not SMALLEST_FLOAT <= value <= LARGEST_FLOAT:
        raise ValueError(f"{name} is {value}; expected 0, or a number from {SMALLEST_FLOAT:.4g} to {LARGEST_FLOAT:.4g}")
    return float(value)


def check_share(name: str, value: float) -> float:
    """Return ``value`` as a float from 0 to 1."""
    if check_nonnegative(name, value) > 1:
        raise ValueError(f"{name} is {value}; expected 0 to 1")
    return float(value)


def check_weights(weights: Sequence[float] | Tensor | None, max_order: int) -> tuple[float, ...]:
    """Return one weight per order: uniform for None, else non-negative and summing to 1."""
    if weights is None:
        return (1.0 / max_order,) * max_order
    try:
        found = tuple(float(weight) for weight in weights)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"weights is {weights!r}; expected {max_order} numbers") from None
    if len(found) != max_order:
        raise ValueError(f"weights has {len(found)} entries; expected max_order = {max_order}, one for each order")
    if not all(math.isfinite(weight) and weight >= 0 for weight in found):
        raise ValueError(f"weights is {found}; expected finite numbers of at least 0")
    if abs(sum(found) - 1) > 1e-6:
        raise ValueError(f"weights sums to {sum(found):.6g}; expected 1, so divide each by their sum")
    return found
