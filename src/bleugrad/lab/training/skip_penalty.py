"""The length of one-pass translations: the penalty of skipping is chosen on the validation text."""

import math
from collections.abc import Callable

from bleugrad.lab.errors import UsageError
from bleugrad.lab.models.one_pass import OnePassModel
from bleugrad.lab.models.protocol import TranslationModel

STEPS, FURTHER = (-1, 1, 2, 3, 4), (8, 16)
"""Penalties that are tried besides 0, in units of the model; further ones while each raises BLEU by more than NOISE."""

NOISE = 0.0005


def best_penalty(model: TranslationModel, usual: float, measure: Callable[[], float]) -> float:
    """The ``skip_penalty`` with the highest validation BLEU, the first of several; 0 if the model has no penalty.

    ``usual`` is the BLEU without a penalty, and ``measure`` that of the model as it is.
    """
    if not isinstance(model, OnePassModel):
        return 0.0
    found = {0.0: usual}
    for step in (*STEPS, *FURTHER):
        *before, last = found.values()
        if step in FURTHER and last <= max(before) + NOISE:
            break
        model.skip_penalty = step * model.penalty_unit
        found[model.skip_penalty] = measure()
    model.skip_penalty = 0.0
    return max(found, key=found.__getitem__)


def check_penalty(value: float) -> float:
    """Return a penalty that is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"skip_penalty is {value!r}; expected a finite number")
    return float(value)
