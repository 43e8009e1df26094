"""Building the kernels: once, whole or not at all, and never in the way of those who cannot."""

import os
import subprocess
import sys

import pytest

from bleugrad.core.native import build

BUILD = "from bleugrad.core.native.build import library_path; print(library_path('float'))"
COMPILER = """#!/bin/sh
if [ "$1" = "--version" ]; then echo "{version}"; exit 0; fi
echo "$@" >> "{log}"
sleep {seconds}
for each; do if [ "$each" = "{unknown}" ]; then exit 1; fi; done
for last; do :; done
printf library > "$last"
exit {status}
"""


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A stand-in that writes a line to the log for each library; returns a function that sets how it behaves."""
    path, log = tmp_path / "cc", tmp_path / "log"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(path))

    def behave(version="1.0", seconds=0, status=0, unknown=None):
        path.write_text(COMPILER.format(version=version, log=log, seconds=seconds, status=status, unknown=unknown))
        path.chmod(0o700)
        return lambda: log.read_text().splitlines() if log.exists() else []

    return behave


def library_path(real="float"):
    return build.library_path.__wrapped__(real)


def leftovers(folder):
    return sorted(path.name for path in (folder / "cache" / "bleugrad" / "kernels").glob("*.part"))


def test_a_library_is_built_once_for_each_type_and_compiler(compiler, tmp_path, monkeypatch):
    runs = compiler()
    first = library_path()
    assert first.read_text() == "library"
    assert first.parent == tmp_path / "cache" / "bleugrad" / "kernels"
    assert library_path() == first
    assert len(runs()) == 1
    assert "-DREAL=float" in runs()[0]
    assert library_path("double") != first
    compiler(version="2.0")
    assert library_path() != first
    monkeypatch.setattr(build, "_processor", lambda: "another")
    assert library_path() != first
    assert len(runs()) == 4
    assert leftovers(tmp_path) == []


def test_a_compiler_without_openmp_builds_a_library(compiler):
    runs = compiler(unknown=build.PARALLEL)
    assert library_path().read_text() == "library"
    with_openmp, without = runs()
    assert build.PARALLEL in with_openmp
    assert build.PARALLEL not in without


def test_a_failed_build_is_no_library(compiler, tmp_path, caplog):
    caplog.set_level("INFO")
    compiler(status=1)
    assert library_path() is None
    assert "torch operations" in caplog.text
    assert list((tmp_path / "cache" / "bleugrad" / "kernels").iterdir()) == []


def test_without_a_compiler_there_is_no_library(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    assert library_path() is None


def test_without_a_place_to_write_there_is_no_library(compiler, tmp_path, monkeypatch):
    compiler()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert library_path() is None


def test_several_processes_may_build_at_once(compiler, tmp_path):
    runs = compiler(seconds=0.5)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    processes = [
        subprocess.Popen([sys.executable, "-c", BUILD], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    found = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    (path,) = found
    assert path == str(library_path())
    assert 1 <= len(runs()) <= 2
    assert leftovers(tmp_path) == []


LOSS = """
import torch, bleugrad
from bleugrad.core.native.kernels import kernels_for
torch.manual_seed(0)
logits = torch.randn(2, 5, 9, requires_grad=True)
labels = torch.randint(9, (2, 5))
loss = bleugrad.ExpectedBLEULoss(word_start=torch.arange(9) % 2 == 0)(logits, labels)
loss.backward()
print(kernels_for(logits) is None, round(loss.item(), 5), round(logits.grad.norm().item(), 5))
"""


@pytest.mark.parametrize("broken", ["compiler", "library"])
def test_losses_work_where_kernels_do_not(compiler, monkeypatch, capsys, broken):
    """No compiler at all, or one whose library cannot be loaded."""
    if broken == "library":
        compiler()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", LOSS], env=environment, capture_output=True, text=True, check=True)
    monkeypatch.setenv(build.SWITCH, "0")
    exec(LOSS, {})
    assert done.stdout == capsys.readouterr().out
    assert done.stdout.startswith("True")
