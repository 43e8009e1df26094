"""Imports are lazy: the package loads no torch until it is used, and the core loads nothing above it."""

import os
import subprocess
import sys

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
