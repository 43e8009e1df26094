"""A checked configuration from a TOML file and overrides, and back; unknown keys are errors."""

import difflib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bleugrad.lab.errors import UsageError
from bleugrad.lab.extras import require_extra
from bleugrad.lab.settings.config import ANY, CHOOSER, Config, Setting, settings

ConfigT = TypeVar("ConfigT", bound=Config)


def load(kind: type[ConfigT], file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> ConfigT:
    """The configuration: defaults, then the file's values, then the overrides."""
    return layered(kind, {}, file, overrides or {})


def layered(kind: type[ConfigT], before: Mapping[str, Any], file: Path | None, overrides: Mapping[str, Any]) -> ConfigT:
    """The configuration of earlier values (of a preset or a run), then the file's values, then the overrides."""
    values = before if file is None else merged(before, read_toml(file))
    try:
        return build(kind, merged(values, overrides))
    except UsageError as error:
        if file is not None and str(error) == _mistake(kind, values):
            raise UsageError(f"{file}: {error}") from None
        raise


def _mistake(kind: type[Config], values: Mapping[str, Any]) -> str:
    """The message of the error of these values; empty if there is none."""
    try:
        build(kind, values)
    except UsageError as error:
        return str(error)
    return ""


def read_toml(file: Path) -> dict[str, Any]:
    """The values of a TOML file."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        require_extra("translation", "tomli", f"reading {file}")
        import tomli as tomllib
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not TOML: it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:  # also numbers with too many digits, and too many brackets
        raise UsageError(f"{file} cannot be read as TOML: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None


def build(kind: type[ConfigT], values: Mapping[str, Any], path: str = "") -> ConfigT:
    """A config from nested values; an unknown name is an error with the most similar name."""
    known = {setting.name: setting for setting in settings(kind)}
    given = {}
    for name, value in values.items():
        if name in kind.dropped and kind.dropped[name] in (ANY, value):
            continue
        if name not in known:
            raise UsageError(f"unknown setting {path + name!r}{suggestion(name, known, path)}")
        if known[name].is_config and isinstance(value, Mapping):
            value = build(*_chosen(known[name], value, f"{path}{name}."), f"{path}{name}.")
        given[name] = value
    try:
        return kind(**given)
    except UsageError as error:
        raise UsageError(f"{path}{error}") from None


def _chosen(setting: Setting, table: Mapping[str, Any], path: str) -> tuple[type[Config], Mapping[str, Any]]:
    """The config that a table describes, and its values. Settings of other kinds are errors."""
    kinds = setting.kinds
    if not kinds:
        return setting.kind, table
    table = setting.field.metadata["current"](table)
    name = table.get(CHOOSER, next(iter(kinds)))
    if not isinstance(name, str) or name not in kinds:
        raise UsageError(f"{path}{CHOOSER} is {name!r}; expected {' or '.join(map(repr, kinds))}")
    has = {kind: [one.name for one in settings(kind)] for kind in kinds.values()}
    others = {key for names in has.values() for key in names}.difference(has[kinds[name]])
    if foreign := [key for key in table if key in others]:
        users = ", ".join(other for other, kind in kinds.items() if foreign[0] in has[kind])
        expected = ", ".join(key for key in has[kinds[name]] if key != CHOOSER)
        raise UsageError(f"{path}{foreign[0]} is a setting of {users}, not of {name!r}; expected one of {expected}")
    return kinds[name], table


def suggestion(name: str, known: Mapping[str, Any], prefix: str = "") -> str:
    """The most similar known name as a question, or all known names if none is similar."""
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {prefix + near[0]!r}?"
    return f"; expected one of {', '.join(prefix + name for name in known)}"


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables with their dotted names.

    Example:
        >>> dict(flat({"seed": 1, "data": {"batch_size": 64}}))
        {'seed': 1, 'data.batch_size': 64}
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def merged(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values with the overrides applied. A table with another ``name`` replaces the earlier one.

    Example:
        >>> merged({"objective": {"name": "ce", "label_smoothing": 0.1}}, {"objective": {"name": "exact"}})
        {'objective': {'name': 'exact'}}
    """
    result = dict(values)
    for name, value in overrides.items():
        inner = result.get(name)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            names = {table[CHOOSER] for table in (inner, value) if isinstance(table.get(CHOOSER), str)}
            value = merged(inner, value) if len(names) < 2 else value
        result[name] = value
    return result


def to_toml(config: Config, path: tuple[str, ...] = ()) -> str:
    """Every setting; stages and free tables follow as tables."""
    plain, tables = [], []
    for setting in settings(type(config)):
        value = getattr(config, setting.name)
        if setting.is_config:
            here = (*path, setting.name)
            tables.append(f"\n# {setting.help}\n[{'.'.join(here)}]\n{to_toml(value, here)}")
        elif setting.is_tables:
            tables.append(f"\n# {setting.help}\n")
            for name, table in value.items():
                lines = (f"{key} = {toml_value(item)}\n" for key, item in flat(table))
                tables.append(f"[{'.'.join((*path, setting.name, name))}]\n{''.join(lines)}")
        else:
            plain.append(f"{setting.name} = {toml_value(value)}  # {setting.help}\n")
    return "".join(plain + tables)


def toml_value(value: Any) -> str:
    """One value as TOML writes it."""
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    raise TypeError(f"a setting of type {type(value).__name__} cannot be written as TOML")
