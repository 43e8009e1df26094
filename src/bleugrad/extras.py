"""Names that need an optional library: imported on first use, with an error that says how to install it."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def resolver(package: str, homes: Mapping[str, tuple[str, str, Sequence[str]]]) -> Callable[[str], Any]:
    """A ``__getattr__`` for a package whose names are imported on first use.

    ``homes`` maps each name to its module, the extra of ``bleugrad`` that it needs, and the libraries of that extra. A
    missing library raises ``ImportError`` with the command that installs it.
    """

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

    return resolve
