"""Tables ``[objective]`` of earlier versions, with their meaning in today's names.

Earlier, one table had the options of all objectives, and a saved run lists each of them, with or without effect.
``recommended``, ``feeding = "soft-beam"`` and ``input_gradient`` turned "exact" into objectives that have names now.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bleugrad.lab.training.objectives.config import OBJECTIVES

LISTED = {"baseline", "alpha", "own_first"}
"""Options of three objectives, which only a table that lists the options of all has together."""
RECIPE = ("level", "units", "cross_entropy_weight", "feeding", "length", "end_positions", "sharpness")
"""Options that the recipe set. They had to be at their defaults."""


def current(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table in today's names; one of today is unchanged.

    Example:
        >>> current({"name": "exact", "recommended": True, "max_order": 2})
        {'name': 'recommended', 'max_order': 2}
        >>> current({"name": "bound", "feeding": "soft-beam", "candidates": 3})
        {'name': 'soft_beam', 'candidates': 3, 'method': 'bound'}
    """
    values = dict(table)
    name, feeding = values.get("name", "ce"), values.get("feeding")
    if values.pop("recommended", False):
        values = {key: value for key, value in values.items() if key not in RECIPE} | {"name": "recommended"}
    elif feeding == "soft-beam":
        del values["feeding"]
        values |= {"name": "soft_beam", "method": name}
    elif values.get("input_gradient") and feeding == "sample":
        del values["feeding"], values["input_gradient"]
        values |= {"name": "fed_samples", "method": name}
    if values.keys() >= LISTED and values.get("name") in OBJECTIVES:
        known = {field.name for kind in OBJECTIVES.values() for field in fields(kind)}
        others = known - {field.name for field in fields(OBJECTIVES[values["name"]])}
        values = {key: value for key, value in values.items() if key not in others}
    return values
