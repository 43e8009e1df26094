"""Names that are imported on first use. If a library is missing, the error says how to install it."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

Home = tuple[str, str, Sequence[str]]
"""The module of a name, the extra of ``bleugrad`` that it needs, and the libraries of that extra."""


def resolver(package: str, homes: Mapping[str, Home]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose names are imported on first use."""

    def resolve(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, extra, needed = homes[name]
        for module in needed:
            if find_spec(module) is None:
                raise ImportError(
                    f"{package}.{name} needs {module}, which is not installed; "
                    f"install it with: pip install 'bleugrad[{extra}]'"
                )
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return resolve, lambda: sorted(homes)
