"""A branch: an objective by name, with settings of its own, that starts from the weights of the first phase.

On the command line and in a file it is a text: the name of a known branch, or ``LABEL=NAME,SETTING=VALUE,...``. A plain
setting belongs to the objective, one with a dot to the training run, and ``learning_rate`` may list several with a
slash.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from bleugrad.configuration.loading import suggestion
from bleugrad.configuration.stage import Setting, walk
from bleugrad.errors import UsageError
from bleugrad.training.config import ObjectiveConfig, TrainConfig

KNOWN: Mapping[str, str] = MappingProxyType(
    {
        "ce": "ce",
        "reinforce": "reinforce",
        "bound": "bound",
        "exact": "exact",
        "unbiased": "unbiased",
        "mrt": "mrt",
        "exact-own": "exact,feeding=greedy",
        "own-mix": "exact,feeding=greedy,cross_entropy_weight=0.1",
        "sharp-mix": "exact,length=random,end_positions=3,units=words,sharpness=2,cross_entropy_weight=0.1",
    }
)
"""Branches by label, as the part of the text after ``LABEL=``."""

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "ce": "CE",
        "reinforce": "RF",
        "bound": "LB",
        "mrt": "MRT",
        "exact-own": "exact, own tokens",
        "own-mix": "exact, own tokens, CE",
    }
)
"""Names in tables; the first three are the paper's. Any other branch goes by its label."""

FIXED = ("seed", "optimizer.epochs", "data.corpus", "objective.name", "optimizer.learning_rate")
LABEL = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True)
class Branch:
    """A second phase.

    Attributes:
        label: names its directories.
        objective: the objective's name.
        overrides: nested settings of the training run.
        rates: its learning rates; empty for those of the settings.
    """

    label: str
    objective: str
    overrides: dict[str, Any] = field(default_factory=dict)
    rates: tuple[float, ...] = ()

    @property
    def title(self) -> str:
        """Its name in tables."""
        return TITLES.get(self.label, self.label)


def read_branch(text: str) -> Branch:
    """A branch from its text.

    Example:
        >>> read_branch("mix=exact,cross_entropy_weight=0.1,learning_rate=1e-4/3e-4").overrides
        {'objective': {'name': 'exact', 'cross_entropy_weight': 0.1}}
        >>> read_branch("exacct")
        Traceback (most recent call last):
        bleugrad.errors.UsageError: objectives: 'exacct' is not known; did you mean 'exact'?
    """
    label, equals, rest = text.partition("=")
    if not equals:
        if label not in KNOWN:
            raise UsageError(f"objectives: {label!r} is not known{suggestion(label, KNOWN)}")
        rest = KNOWN[label]
    if not LABEL.fullmatch(label):
        raise UsageError(f"objectives: the label {label!r} names a folder; expected small letters, digits, '-', '.'")
    if label in ("base", "logs"):
        raise UsageError(f"objectives: the label {label!r} is taken by the first phase; expected another")
    objective, *pairs = rest.split(",")
    overrides: dict[str, Any] = {"objective": {"name": objective}}
    rates: tuple[float, ...] = ()
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"objectives: {pair!r} in {text!r} has no value; expected SETTING=VALUE")
        if name == "learning_rate":
            rates = tuple(_number(float, name, part, text) for part in value.split("/"))
            continue
        *tables, last = _path(name, text)
        place = overrides
        for table in tables:
            place = place.setdefault(table, {})
        place[last] = _value(_setting((*tables, last)), value, text)
    _check(overrides, text)
    return Branch(label, objective, overrides, rates)


def _path(name: str, text: str) -> tuple[str, ...]:
    path = tuple(name.split(".")) if "." in name else ("objective", name)
    if ".".join(path) in FIXED:
        raise UsageError(f"objectives: {name} in {text!r} is the same for all; expected a setting of this one only")
    known = {".".join(path): None for path, _ in walk(TrainConfig)}
    if ".".join(path) not in known:
        plain = {name.removeprefix("objective."): None for name in known}
        raise UsageError(f"objectives: {name!r} in {text!r} is no setting{suggestion(name, plain)}")
    return path


def _setting(path: tuple[str, ...]) -> Setting:
    return dict(walk(TrainConfig))[path]


def _value(setting: Setting, value: str, text: str) -> Any:
    if setting.kind is bool:
        if value not in ("true", "false"):
            raise UsageError(f"objectives: {setting.name} in {text!r} is {value!r}; expected true or false")
        return value == "true"
    if setting.kind in (int, float):
        return _number(setting.kind, setting.name, value, text)
    return value


def _number(kind: Any, name: str, value: str, text: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"objectives: {name} in {text!r} is {value!r}; expected a number") from None


def _check(overrides: Mapping[str, Any], text: str) -> None:
    """Have a mistake in the objective said here, with the branch it is in."""
    try:
        ObjectiveConfig(**overrides["objective"])
    except UsageError as error:
        raise UsageError(f"objectives: in {text!r}, {error}") from None
