"""Packages of optional extras: an error names the missing one and the command that installs it."""

from importlib.util import find_spec

from bleugrad.lab.errors import FailureError


def require_extra(extra: str, module: str, purpose: str) -> None:
    """Raise unless ``module``, which the extra ``bleugrad[extra]`` brings, is installed.

    Example:
        >>> require_extra("plots", "no_such_module", "drawing figures")
        Traceback (most recent call last):
        bleugrad.lab.errors.FailureError: drawing figures needs no_such_module, which is not installed; install it with:
          pip install 'bleugrad[plots]'
    """
    if find_spec(module) is None:
        raise FailureError(
            f"{purpose} needs {module}, which is not installed; install it with: pip install 'bleugrad[{extra}]'"
        )


def require_translation(purpose: str) -> None:
    """Raise unless the packages of the extra ``bleugrad[translation]`` are installed."""
    for module in ("filelock", "sacrebleu", "safetensors", "tqdm"):
        require_extra("translation", module, purpose)
