"""Two rooms: the library never imports the laboratory, which uses public names only; in each, imports go downward."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

(ROOT,) = (Path(folder) for folder in importlib.util.find_spec("bleugrad").submodule_search_locations)

CORE = {"arguments", "backends", "references", "lengths", "matches", "outputs", "scores", "distributed"}
LIBRARY = {
    "arguments": set(),
    "extras": set(),
    "backends": set(),
    "distributed": set(),
    "references": {"arguments", "backends"},
    "lengths": {"backends"},
    "matches": {"backends", "references", "lengths"},
    "outputs": {"arguments", "backends", "references", "matches"},
    "scores": CORE,
    "expectation": CORE,
    "consensus": CORE | {"expectation"},
    "losses": CORE | {"expectation"},
    "tokenizers": {"arguments"},
    "explanation": CORE | {"expectation"},
    "metrics": CORE | {"expectation", "extras"},
    "hf": CORE | {"expectation", "losses", "extras", "tokenizers", "metrics"},
}
AROUND = {"errors", "extras", "settings", "runs"}
LAB = {
    "special_ids": set(),
    "errors": set(),
    "extras": {"errors"},
    "settings": {"errors", "extras"},
    "runs": {"errors", "extras", "settings"},
    "data": AROUND | {"special_ids"},
    "models": {"errors", "settings", "special_ids"},
    "training": AROUND | {"special_ids", "data", "models"},
    "experiments": AROUND | {"data", "models", "training"},
    "reports": AROUND | {"experiments"},
    "commands": AROUND | {"data", "models", "training", "experiments", "reports"},
}
PUBLIC = (
    *("bleugrad", "bleugrad.hf", "bleugrad.metrics", "bleugrad.explanation", "bleugrad.outputs"),
    "bleugrad.losses.recipe",
)
"""What the laboratory may import: names in ``__all__`` of these packages."""


def imported_names(path):
    """The names of ours that a source file imports, with the module they come from, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "bleugrad")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            if node.module.split(".")[0] == "bleugrad":
                yield from ((node.module, alias.name) for alias in node.names)


def imported_packages(path, root):
    """The packages below ``root``, such as "bleugrad.lab", that a source file imports from."""
    depth = len(root.split("."))
    for module, name in imported_names(path):
        parts = [*module.split("."), *([name] if name else [])]
        if ".".join(parts[:depth]) == root and len(parts) > depth:
            yield parts[depth]


def packages(folder):
    found = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    return found - {"__init__"}


def sources(folder, package):
    alone = folder / f"{package}.py"
    return [alone] if alone.exists() else sorted((folder / package).rglob("*.py"))


def test_every_package_has_its_place():
    assert packages(ROOT) == set(LIBRARY) | {"lab", "__main__"}
    assert packages(ROOT / "lab") == set(LAB)
    assert len([path for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"]) <= 11


@pytest.mark.parametrize("package", LIBRARY)
def test_a_package_of_the_library_imports_only_what_is_below_it(package):
    for path in sources(ROOT, package):
        above = set(imported_packages(path, "bleugrad")) & (packages(ROOT) | {"lab"}) - LIBRARY[package] - {package}
        assert not above, f"{path.relative_to(ROOT)} imports {above}"


@pytest.mark.parametrize("package", LAB)
def test_a_package_of_the_laboratory_imports_only_what_is_below_it(package):
    for path in sources(ROOT / "lab", package):
        above = set(imported_packages(path, "bleugrad.lab")) & packages(ROOT / "lab") - LAB[package] - {package}
        assert not above, f"{path.relative_to(ROOT)} imports {above}"


def test_the_laboratory_uses_public_names_of_the_library_only():
    public = {(package, name) for package in PUBLIC for name in importlib.import_module(package).__all__}
    for path in sorted((ROOT / "lab").rglob("*.py")):
        for module, name in imported_names(path):
            if not f"{module}.".startswith("bleugrad.lab."):
                assert (module, name) in public or (module, name) == ("bleugrad", None), f"{path}: {module}.{name}"
