"""The versions of everything that can change the numbers of a run."""

import platform
from importlib.metadata import PackageNotFoundError, version

import bleugrad

PACKAGES = ("torch", "numpy", "matplotlib", "sacrebleu", "safetensors", "tokenizers", "lightning-fabric")


def versions() -> dict[str, str]:
    """Versions of this package, Python, the machine's architecture, and the libraries that are installed."""
    found = {
        "bleugrad": bleugrad.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
