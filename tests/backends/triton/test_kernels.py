"""The Triton kernels equal the C kernels and compile for GPUs, without one."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed: it exists for Linux only")


def run(*command, **environment):
    """A Python process; its output is shown if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_in_the_interpreter():
    arguments = ("pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "tests/backends/triton/interpreted.py")
    assert " passed" in run(*arguments, TRITON_INTERPRET="1")


@pytest.mark.slow
def test_in_the_interpreter_at_length():
    arguments = ("pytest", "-q", "-p", "no:cacheprovider", "-m", "slow", "tests/backends/triton/interpreted.py")
    assert " passed" in run(*arguments, TRITON_INTERPRET="1")


LARGEST = ("row_gradient_kernel", "exact_matches_gradient_kernel")


@pytest.mark.parametrize(
    ("target", "kernels"),
    [
        (("cuda", "90"), ()),
        (("cuda", "80"), LARGEST),
        (("cuda", "100"), LARGEST),
        (("hip", "gfx942"), LARGEST),
        *(
            pytest.param(target, (), marks=pytest.mark.slow)
            for target in (("cuda", "80"), ("cuda", "100"), ("hip", "gfx942"))
        ),
    ],
    ids=lambda value: "-".join(value),
)
def test_compiles_for(tmp_path, target, kernels):
    """All kernels for one GPU and the largest for the others; the slow tests compile all for all."""
    found = run(
        "tests.backends.triton.compile_all", *target, *kernels, TRITON_CACHE_DIR=str(tmp_path), TRITON_INTERPRET="0"
    )
    assert set(kernels) <= set(found.split())
