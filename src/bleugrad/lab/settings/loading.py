"""From a TOML file and overrides to a checked configuration; unknown keys are errors."""

import difflib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bleugrad.lab.errors import UsageError
from bleugrad.lab.extras import require_extra
from bleugrad.lab.settings.stage import Stage, settings

StageT = TypeVar("StageT", bound=Stage)


def load(kind: type[StageT], file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> StageT:
    """The configuration: defaults, then the file's values, then the overrides."""
    return layered(kind, {}, file, overrides or {})


def layered(kind: type[StageT], before: Mapping[str, Any], file: Path | None, overrides: Mapping[str, Any]) -> StageT:
    """The configuration of earlier values (of a preset or a run), then the file's values, then the overrides."""
    values = dict(before)
    if file is not None:
        of_file = read_toml(file)
        try:
            build(kind, of_file)
        except UsageError as error:
            raise UsageError(f"{file}: {error}") from None
        values = merged(values, of_file)
    return build(kind, merged(values, overrides))


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


def build(kind: type[StageT], values: Mapping[str, Any], path: str = "") -> StageT:
    """A stage from nested values.

    Example:
        >>> from dataclasses import dataclass
        >>> from bleugrad.lab.settings.stage import option
        >>> @dataclass(frozen=True)
        ... class Walk(Stage):
        ...     steps: int = option(10, "steps to take", minimum=1)
        >>> build(Walk, {"steps": 3})
        Walk(steps=3)
        >>> build(Walk, {"step": 3})
        Traceback (most recent call last):
        bleugrad.lab.errors.UsageError: unknown setting 'step'; did you mean 'steps'?
    """
    known = {setting.name: setting for setting in settings(kind)}
    given = {}
    for name, value in values.items():
        if name not in known:
            raise UsageError(f"unknown setting {path + name!r}{suggestion(name, known, path)}")
        if known[name].is_stage and isinstance(value, Mapping):
            value = build(known[name].kind, value, f"{path}{name}.")
        given[name] = value
    try:
        return kind(**given)
    except UsageError as error:
        raise UsageError(f"{path}{error}") from None


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
    """Nested values with the overrides applied."""
    result = dict(values)
    for name, value in overrides.items():
        inner = result.get(name)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        result[name] = merged(inner, value) if both else value  # type: ignore[arg-type]
    return result
