"""The form of saved JSON: its keys, types and ranges, checked before a value is used."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, get_type_hints


@dataclasses.dataclass(frozen=True)
class Rule:
    """A condition on a single value: its description and its test."""

    words: str
    allows: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return math.isfinite(value) if type(value) is float else type(value) is int and abs(value) < 2**63


TEXT = Rule("text", lambda value: isinstance(value, str))
WHOLE = Rule("a whole number from 0", lambda value: type(value) is int and 0 <= value < 2**63)
NUMBER = Rule("a finite number", _is_number)
POSITIVE = Rule("a finite number above 0", lambda value: _is_number(value) and value > 0)
NUMBER_OR_NULL = Rule("a finite number or null", lambda value: value is None or _is_number(value))

Form = Rule | dict[str, Any] | list[Any]
"""A rule; a dictionary of forms, whose keys must all be there and no others; or a list with the form of each item."""

_RULES: dict[Any, Form] = {int: WHOLE, float: NUMBER, str: TEXT, tuple[float, ...]: [NUMBER]}


def form_of(kind: type) -> dict[str, Form]:
    """The form of a dataclass: whole numbers are not negative, and all numbers are finite."""
    hints = get_type_hints(kind)
    return {field.name: _RULES[hints[field.name]] for field in dataclasses.fields(kind)}


def check_form(value: Any, form: Form, name: str) -> None:
    """Raise a ValueError that names the first difference.

    Example:
        >>> check_form({"step": -1}, {"step": WHOLE}, "position")
        Traceback (most recent call last):
        ValueError: position.step is -1; expected a whole number from 0
    """
    if isinstance(form, Rule):
        if not form.allows(value):
            raise ValueError(f"{name} is {value!r:.40}; expected {form.words}")
    elif not isinstance(value, type(form)):
        raise ValueError(f"{name} is {value!r:.40}; expected a {'table' if isinstance(form, dict) else 'list'}")
    elif isinstance(form, list):
        for place, item in enumerate(value):
            check_form(item, form[0], f"{name}[{place}]")
    else:
        for key in (*form, *value):
            if key not in value or key not in form:
                raise ValueError(f"{name}.{key} is {'unknown' if key in value else 'missing'}")
            check_form(value[key], form[key], f"{name}.{key}")
