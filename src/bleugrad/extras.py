"""Optional requirements: a missing one is named, with the command that installs it."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from bleugrad.errors import FailureError


def require_extra(extra: str, module: str, purpose: str) -> None:
    """Raise unless ``module``, which the extra ``bleugrad[extra]`` brings, is installed.

    Example:
        >>> require_extra("plots", "no_such_module", "drawing figures")
        Traceback (most recent call last):
        bleugrad.errors.FailureError: drawing figures needs no_such_module, which is not installed; install it with:
          pip install 'bleugrad[plots]'
    """
    if find_spec(module) is None:
        raise FailureError(
            f"{purpose} needs {module}, which is not installed; install it with: pip install 'bleugrad[{extra}]'"
        )


def resolver(package: str, homes: Mapping[str, tuple[str, str, Sequence[str]]]) -> Callable[[str], Any]:
    """A ``__getattr__`` for a package whose names are imported on first use.

    ``homes`` says for each name its module, and the extra that brings the libraries it needs.
    """

    def resolve(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, extra, needed = homes[name]
        for module in needed:
            require_extra(extra, module, f"{package}.{name}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return resolve


def require_translation(purpose: str) -> None:
    """Raise unless the packages of the extra ``bleugrad[translation]`` are installed."""
    for module in ("sacrebleu", "safetensors", "tqdm"):
        require_extra("translation", module, purpose)
