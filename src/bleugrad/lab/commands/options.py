"""Command-line options, generated from the fields of a configuration."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

from bleugrad.lab.settings.config import CHOOSER, Config, Setting, check_value, settings, values, walk
from bleugrad.lab.settings.loading import flat

PREFIX = "setting:"
LEAST = {"batch": 1, "beam": 1, "jobs": 1, "n_best": 0, "samples": 0}
"""Minimum values of options that are no settings."""
ShownDefault = Callable[[tuple[str, ...], Setting], str | None]


def own_default(path: tuple[str, ...], setting: Setting) -> str:
    """The default of the setting itself, as the help shows it."""
    return shown_value(setting.default)


def shown_value(value: Any) -> str:
    """A value of a setting as text; a bool is "yes" or "no", and an empty text is "none"."""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value) or "none"


def add_options(parser: ArgumentParser, kind: type[Config], default: ShownDefault = own_default) -> None:
    """One option per setting; an inner config is a group. The usage line does not list them: there are too many.

    ``default`` gives the default that the help shows for a setting and its path of names; None shows none. Kinds of a
    choice share an option; its help names those that have it.
    """
    positional = [str(action.metavar) for action in parser._actions if not action.option_strings]
    parser.usage = " ".join(["%(prog)s [OPTION ...]", *positional])
    group = parser.add_argument_group("settings")
    groups = {inner.name: parser.add_argument_group(inner.help) for inner in settings(kind) if inner.is_config}
    found: dict[tuple[str, ...], list[Setting]] = {}
    for path, setting in walk(kind):
        found.setdefault(path, []).append(setting)
    for path, same in found.items():
        groups.get(path[0], group).add_argument(
            option_name(path),
            dest=PREFIX + ".".join(path),
            default=argparse.SUPPRESS,
            help=_help(path, same, default(path, same[0])).replace("%", "%%"),
            **_shape(same),
        )


def _help(path: tuple[str, ...], same: Sequence[Setting], default: str | None) -> str:
    """The help of an option; of one that kinds of a choice share, also their defaults and their names."""
    first = same[0]
    if path[-1] == CHOOSER:
        text, users = "; ".join(setting.help for setting in same), ""
    else:
        text, users = first.help, ", ".join(name for setting in same for name in setting.users)
        for other in same:
            if default is not None and other.default != first.default:
                default += f"; {', '.join(other.users)}: {shown_value(other.default)}"
    return text + (f" (default: {default})" if default is not None else "") + (f" [{users}]" if users else "")


def add_run_arguments(
    parser: ArgumentParser,
    config_type: type[Config],
    output: Path | None,
    shown: str = "%(default)s",
    default: ShownDefault = own_default,
) -> None:
    """The arguments of a command that writes a run: ``--config``, ``--output``, ``--overwrite`` and its settings.

    ``output`` is the default directory, None if it depends on other arguments; ``shown`` is the default in the help.
    ``default`` is that of :func:`add_options`.
    """
    parser.add_argument("--config", type=Path, metavar="FILE.toml", help="file with settings; options override it")
    parser.add_argument("--output", type=Path, default=output, metavar="DIR", help=f"run directory (default: {shown})")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished run in that directory")
    add_options(parser, config_type, default)


def add_search_arguments(parser: ArgumentParser) -> None:
    """The arguments of a command that translates: the run, the search and the device."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a training run")
    parser.add_argument(
        "--beam",
        type=int,
        metavar="N",
        help="beam width, at most 1000; 1 is greedy (default: 5, or 1 for one-pass models; only 1 for nat and graph)",
    )
    parser.add_argument(
        "--search",
        choices=("beam", "mbr"),
        default="beam",
        help="beam search, or the candidate closest to the model's own output (minimum Bayes risk) "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--skip-penalty",
        type=float,
        metavar="X",
        help="one-pass models: higher makes longer translations (default: the one chosen on the validation text)",
    )
    parser.add_argument(
        "--precision",
        choices=("32", "bf16"),
        default="32",
        help="bf16: parameters and products in bfloat16, faster on processors that support it (default: %(default)s)",
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where to compute; auto uses a GPU if there is one (default: %(default)s)",
    )


def given_options(arguments: Namespace) -> dict[str, Any]:
    """The settings given on the command line, nested as the configuration is."""
    nested: dict[str, Any] = {}
    for key, value in vars(arguments).items():
        if not key.startswith(PREFIX):
            continue
        *tables, name = key.removeprefix(PREFIX).split(".")
        place = nested
        for table in tables:
            place = place.setdefault(table, {})
        place[name] = value
    return nested


def check_plain_options(arguments: Namespace) -> None:
    """Check the values of arguments that are no settings; settings are checked elsewhere."""
    for key, value in vars(arguments).items():
        for item in value if isinstance(value, list) else [value]:
            if not key.startswith(PREFIX) and isinstance(item, int | float | str | PurePath):
                check_value(key, str(item) if isinstance(item, PurePath) else item, LEAST.get(key))


def option_words(config: Config, before: Mapping[str, Any] = MappingProxyType({})) -> list[str]:
    """The options that give this configuration, without those at their default. A choice is always named.

    ``before`` holds nested values in the place of the defaults.
    """
    words: list[str] = []
    known = dict(flat(before))
    for path, setting, value in values(config):
        if value == known.get(".".join(path), setting.default) and setting.name != CHOOSER:
            continue
        if isinstance(value, bool):
            words.append(option_name(path) if value else option_name(path).replace("--", "--no-", 1))
        elif isinstance(value, tuple):
            words += [option_name(path), *map(str, value)]
        elif str(value).startswith("-"):  # a separate word would be taken for an option
            words.append(f"{option_name(path)}={value}")
        else:
            words += [option_name(path), str(value)]
    return words


def option_name(path: tuple[str, ...]) -> str:
    """The option of a setting: ``--repeats-max-order`` of ("repeats", "max_order")."""
    return "--" + "-".join(path).replace("_", "-")


def _shape(same: Sequence[Setting]) -> dict[str, Any]:
    """How an option is parsed; its setting may have several kinds."""
    setting, words = same[0], list(dict.fromkeys(word for setting in same for word in setting.choices))
    if setting.kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    if words:
        return {"choices": words}
    shape = {"type": setting.item_kind, "metavar": setting.item_kind.__name__.upper()}
    return shape | {"nargs": "+"} if setting.is_tuple else shape
