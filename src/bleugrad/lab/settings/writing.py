"""The resolved configuration as TOML for ``--config``, each setting with its help text."""

import json
from typing import Any

from bleugrad.lab.settings.config import Config, settings
from bleugrad.lab.settings.loading import flat


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
    r"""One value as TOML writes it.

    Example:
        >>> toml_value((1, 2)), toml_value(True), toml_value('a "b"'), toml_value(1e-3)
        ('[1, 2]', 'true', '"a \\"b\\""', '0.001')
    """
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    raise TypeError(f"a setting of type {type(value).__name__} cannot be written as TOML")
