"""Settings: a frozen dataclass whose fields have a help text and a checked range."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from bleugrad.lab.errors import UsageError

LARGEST: dict[type, float] = {int: 2**31 - 1, float: 1e30}
"""The largest absolute value of an option without limits of its own; fits in 32 bits."""
SMALLEST = 1e-30
LARGEST_SEED = 2**63 - 1
ANY = object()
CHOOSER = "name"
"""The key of a table that chooses one of several kinds of settings."""


def option(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    removed: tuple[str, ...] = (),
) -> Any:
    """A field with its default, its help text and the range of its value (of each element, for a tuple).

    ``minimum`` and ``maximum`` are allowed themselves, and are plus and minus ``LARGEST`` by default; ``above`` is not.
    ``removed`` are words of earlier versions, which saved settings may have, and which only their owner refuses.
    """
    limits = {"minimum": minimum, "above": above, "maximum": maximum}
    return dataclasses.field(default=default, metadata={"help": help, "removed": removed, **limits})


def inner(kind: "type[Config]", help: str) -> Any:
    """A field of inner settings: a table of the TOML file, a prefix of the command-line options."""
    return dataclasses.field(default_factory=kind, metadata={"help": help})


def choice(
    kinds: "Mapping[str, type[Config]]", help: str, current: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Any:
    """A field of inner settings of several kinds; the table's key ``name`` chooses one, the first by default.

    ``current`` converts a table of an earlier version.
    """
    return dataclasses.field(
        default_factory=next(iter(kinds.values())), metadata={"help": help, "kinds": kinds, "current": current}
    )


def tables(default: Mapping[str, Any], help: str) -> Any:
    """A field of free tables by name, which its owner checks; the command line has no options for them."""
    return dataclasses.field(default_factory=lambda: dict(default), metadata={"help": help})


@dataclass(frozen=True)
class Config:
    """Base of all settings.

    Types: int, float, str, bool, a Literal of strings, a tuple of numbers, a Config, a dict.

    Example:
        >>> @dataclass(frozen=True)
        ... class Walk(Config):
        ...     steps: int = option(10, "steps to take", minimum=1)
        >>> Walk(steps=0)
        Traceback (most recent call last):
        bleugrad.lab.errors.UsageError: steps is 0; expected at least 1
    """

    dropped: ClassVar[Mapping[str, Any]] = {}
    """Settings of earlier versions, with the value that saved files may still have; ANY if it changed no result."""

    def __post_init__(self) -> None:
        for setting in settings(type(self)):
            object.__setattr__(self, setting.name, setting.checked(getattr(self, setting.name)))


@dataclass(frozen=True)
class RunConfig(Config):
    """Base of the settings of a whole run, which has one random seed."""

    seed: int = option(0, "random seed; later runs use seed + 1, seed + 2, ...", minimum=0, maximum=LARGEST_SEED)


class Setting:
    """One field of a config, with its type resolved. ``users`` are the kinds of a choice that have it."""

    def __init__(self, kind: Any, field: "dataclasses.Field[Any]", users: tuple[str, ...] = ()) -> None:
        self.name, self.kind, self.field, self.users = field.name, kind, field, users
        self.help: str = field.metadata["help"]
        self.kinds: Mapping[str, type[Config]] = field.metadata.get("kinds", {})  # of a choice, by name
        self.is_config = isinstance(kind, type) and issubclass(kind, Config)
        self.is_tables, self.is_tuple = get_origin(kind) is dict, get_origin(kind) is tuple
        self.choices = get_args(kind) if get_origin(kind) is Literal else ()
        # type of a value, or of the elements of a tuple
        self.item_kind: Any = get_args(kind)[0] if self.is_tuple else kind
        self.item_kind = str if self.choices else self.item_kind

    @property
    def default(self) -> Any:
        """The default value."""
        factory = self.field.default_factory
        return self.field.default if factory is dataclasses.MISSING else factory()

    def checked(self, value: Any) -> Any:
        """The value, converted if that is lossless (int to float, list to tuple); an error names the setting."""
        if self.is_config:
            if not isinstance(value, self.kind):
                raise UsageError(f"{self.name} is {value!r}; expected a table of settings")
            return value
        if self.is_tables:
            if not isinstance(value, Mapping) or not all(isinstance(table, Mapping) for table in value.values()):
                raise UsageError(f"{self.name} is {value!r}; expected tables [{self.name}.NAME]")
            return dict(value)
        if not self.is_tuple:
            return self._checked_item(value)
        if not isinstance(value, list | tuple) or not value:
            raise UsageError(f"{self.name} is {value!r}; expected a list of at least one {_noun(self.item_kind)}")
        return tuple(self._checked_item(item) for item in value)

    def _checked_item(self, value: Any) -> Any:
        if self.choices:
            if value not in (*self.choices, *self.field.metadata["removed"]):
                raise UsageError(f"{self.name} is {value!r}; expected {' or '.join(map(repr, self.choices))}")
            return value
        if isinstance(value, str) and value in self.field.metadata["removed"]:
            return value
        limits = self.field.metadata
        check_value(self.name, value, limits["minimum"], limits["maximum"])
        if self.item_kind is float and type(value) is int:
            value = float(value)
        if type(value) is not self.item_kind:
            raise UsageError(f"{self.name} is {value!r}; expected {_noun(self.item_kind, article=True)}")
        if limits["above"] is not None and value <= limits["above"]:
            raise UsageError(f"{self.name} is {value}; expected more than {limits['above']}")
        return value


def check_value(name: str, value: Any, minimum: float | None = None, maximum: float | None = None) -> None:
    """Raise for text that a file cannot hold and for numbers out of range; ``LARGEST`` is the default range."""
    if isinstance(value, str):
        if "\0" in value or value != value.encode(errors="ignore").decode():
            raise UsageError(f"{name} is {value!r}; expected UTF-8 text without NUL")
        return
    if type(value) not in LARGEST:
        return
    if type(value) is int and value.bit_length() > 63:  # too long to print
        raise UsageError(f"{name} is a whole number of {value.bit_length()} bits; expected at most 63")
    if not math.isfinite(value):
        raise UsageError(f"{name} is {value}; expected a finite number")
    if value < (least := -LARGEST[type(value)] if minimum is None else minimum):
        raise UsageError(f"{name} is {value}; expected at least {least}")
    if value > (most := LARGEST[type(value)] if maximum is None else maximum):
        raise UsageError(f"{name} is {value}; expected at most {most}")
    if 0 < abs(value) < SMALLEST:
        raise UsageError(f"{name} is {value}; expected 0, or at least {SMALLEST} in size")


def settings(kind: type[Config], users: tuple[str, ...] = ()) -> list[Setting]:
    """The settings of a config, in order."""
    hints = get_type_hints(kind)
    return [Setting(hints[field.name], field, users) for field in dataclasses.fields(kind)]


def walk(
    kind: type[Config], path: tuple[str, ...] = (), users: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Setting]]:
    """The settings of a config and of its inner ones, each with its path of names; without free tables.

    A choice yields the settings of each of its kinds.
    """
    for setting in settings(kind, users):
        here = (*path, setting.name)
        if setting.kinds:
            for one in dict.fromkeys(setting.kinds.values()):
                yield from walk(one, here, tuple(name for name, other in setting.kinds.items() if other is one))
        elif setting.is_config:
            yield from walk(setting.kind, here)
        elif not setting.is_tables:
            yield here, setting


def values(config: Config, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Setting, Any]]:
    """The settings of a config and of its inner ones, each with its path of names and its value."""
    for setting in settings(type(config)):
        here, value = (*path, setting.name), getattr(config, setting.name)
        if isinstance(value, Config):
            yield from values(value, here)
        elif not setting.is_tables:
            yield here, setting, value


def differences(one: Config, other: Config) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """The path of each setting in which two configs differ, with both values; None if ``other`` lacks it."""
    others = {path: value for path, _, value in values(other)}
    for path, _, value in values(one):
        if value != others.get(path):
            yield path, value, others.get(path)


def _noun(kind: Any, article: bool = False) -> str:
    noun = {int: "whole number", float: "number", str: "text", bool: "true or false"}[kind]
    return f"a {noun}" if article and kind in (int, float) else noun
