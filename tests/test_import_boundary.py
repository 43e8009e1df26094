"""What is loaded when: the package costs nothing until used, and the core depends on nothing above it."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("matplotlib", "sacrebleu", "tokenizers", "transformers", "rich", "lightning")


def loaded_after(statements):
    """Names of all modules a fresh interpreter holds after `statements`."""
    script = f"import sys\n{statements}\nprint('\\n'.join(sys.modules))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_package_loads_no_torch():
    loaded = loaded_after("import bleugrad; dir(bleugrad); bleugrad.__version__")
    assert "bleugrad" in loaded
    assert not loaded & {"torch", "numpy", *HEAVY}


def test_using_the_core_loads_torch_and_nothing_heavy():
    loaded = loaded_after("import bleugrad; bleugrad.bleu([[1, 2]], [[1, 2]]); bleugrad.expected_bleu")
    assert "torch" in loaded
    assert not loaded & set(HEAVY)


def test_unknown_names_are_attribute_errors():
    import bleugrad

    assert {"bleu", "expected_bleu"} <= set(dir(bleugrad))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = bleugrad.no_such_name


def core_sources():
    (folder,) = importlib.util.find_spec("bleugrad.core").submodule_search_locations
    return sorted(Path(folder).rglob("*.py"))


def imported_modules(path, package):
    """Absolute names of the modules a source file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module
        elif isinstance(node, ast.ImportFrom):
            yield importlib.util.resolve_name("." * node.level + (node.module or ""), package)


@pytest.mark.parametrize("path", core_sources(), ids=lambda path: path.stem)
def test_the_core_imports_nothing_of_the_package_outside_the_core(path):
    root = core_sources()[0].parent
    package = ".".join(("bleugrad", "core", *path.relative_to(root).parts[:-1]))
    ours = [name for name in imported_modules(path, package) if name.split(".")[0] == "bleugrad"]
    assert all(name == "bleugrad.core" or name.startswith("bleugrad.core.") for name in ours), ours
