"""Imports only go downward: a module imports packages below its own, never beside or above it."""

import ast
import importlib.util
from pathlib import Path

import pytest

(ROOT,) = (Path(folder) for folder in importlib.util.find_spec("bleugrad").submodule_search_locations)

CORE = {"arguments", "backends", "references", "lengths", "matches", "outputs", "scores", "pooling", "losses"}
AROUND = {"errors", "extras", "configuration", "runs"}
BELOW = {
    "arguments": set(),
    "backends": set(),
    "pooling": set(),
    "references": {"arguments", "backends"},
    "lengths": {"backends", "pooling", "references"},
    "matches": {"backends", "references", "lengths"},
    "outputs": {"arguments", "backends", "references", "matches"},
    "scores": CORE - {"losses"},
    "losses": CORE,
    "tokenizers": {"arguments"},
    "special_ids": set(),
    "errors": set(),
    "extras": {"errors"},
    "configuration": {"errors", "extras"},
    "runs": {"errors", "configuration"},
    "data": AROUND | {"special_ids"},
    "models": {"errors", "configuration", "special_ids"},
    "training": AROUND | CORE | {"tokenizers", "special_ids", "data", "models"},
    "experiments": AROUND | CORE | {"data", "models", "training"},
    "reports": AROUND,
    "hf": {"extras", "tokenizers", "metrics"} | CORE,
    "metrics": {"extras"} | CORE - {"losses"},
    "explanation": {"errors", "extras", "special_ids", "reports", "data", "training"} | CORE,
    "cli": AROUND | CORE | {"explanation", "tokenizers", "data", "models", "training", "experiments", "reports"},
    "__main__": {"cli"},
}


def imported_packages(path):
    """The packages of ours a source file imports, inside functions too; `import bleugrad` is the public surface."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        ours = [name.split(".")[1] for name in names if name.startswith("bleugrad.")]
        yield from (name for name in ours if name in BELOW)


def sources(package):
    alone = ROOT / f"{package}.py"
    return [alone] if alone.exists() else sorted((ROOT / package).rglob("*.py"))


def test_every_package_has_its_place():
    found = {path.stem for path in ROOT.glob("*.py")} | {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert found - {"__init__"} == set(BELOW)


@pytest.mark.parametrize("package", BELOW)
def test_a_package_imports_only_what_is_below_it(package):
    for path in sources(package):
        above = set(imported_packages(path)) - BELOW[package] - {package}
        assert not above, f"{path.relative_to(ROOT)} imports {above}"
