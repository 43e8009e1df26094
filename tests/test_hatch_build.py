"""The build of the kernels: which libraries, with which options, and what happens without a compiler."""

import os
import shutil
import subprocess
import sys

import pytest

import hatch_build

COMPILER = """#!/bin/sh
for each; do if [ "$each" = -dumpmachine ]; then echo {target}; exit 0; fi; done
echo "$@" >> {log}
while [ "$1" != -o ]; do shift; done
printf library > "$2"
exit {status}
"""


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A stand-in that writes a line to the log for each library; returns a function that sets how it behaves."""
    folder, path, log = tmp_path / "c", tmp_path / "cc", tmp_path / "log"
    folder.mkdir()
    shutil.copy(hatch_build.FOLDER / "fingerprint.py", folder)
    for name in ("a.c", "b.c", "a.h"):
        (folder / name).write_text(name)
    monkeypatch.setattr(hatch_build, "FOLDER", folder)
    for name in ("CFLAGS", "ARCHFLAGS", "LDFLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CC", str(path))

    def behave(target="x86_64-linux-gnu", status=0):
        path.write_text(COMPILER.format(target=target, log=log, status=status))
        path.chmod(0o700)
        return lambda: log.read_text().splitlines()

    return behave


def test_x86_has_a_library_per_capability_and_type(compiler):
    calls = compiler()
    made = hatch_build.build()
    names = {f"{real}_{level}.so" for real in ("float", "double") for level in ("default", "avx2", "avx512")}
    assert {path.name for path in made} == names == {path.name for path in hatch_build.FOLDER.glob("*.so")}
    assert all(path.read_text() == "library" for path in made)
    assert len(calls()) == 6
    for call in calls():
        assert ("-mavx512f" in call, "-mfma" in call) == ("_avx512.so" in call, "_default.so" not in call)
        assert f"-DREAL={'float' if '/float_' in call else 'double'} " in call
        assert "/a.c " in call
        assert "/b.c " in call
        assert "native" not in call  # the machine that builds is not the one that runs
        assert "openmp" not in call
    assert len({call.split("-DFINGERPRINT=")[1].split()[0] for call in calls()}) == 1


@pytest.mark.parametrize("target", ["aarch64-linux-gnu", "arm64-apple-darwin24.0.0", "x86_64-apple-darwin24.0.0"])
def test_other_machines_have_one_per_type(compiler, target):
    calls = compiler(target=target)
    assert {path.name for path in hatch_build.build()} == {"float_default.so", "double_default.so"}
    assert not [call for call in calls() if "-mavx" in call]


def test_the_usual_variables_are_honoured(compiler, tmp_path, monkeypatch):
    calls = compiler()
    monkeypatch.setenv("CC", f"{tmp_path / 'cc'} -pipe -DNAME='a b'")
    monkeypatch.setenv("CFLAGS", "-O1")
    monkeypatch.setenv("ARCHFLAGS", "-arch arm64")
    monkeypatch.setenv("LDFLAGS", "-s")
    hatch_build.build()
    assert all(call.startswith("-pipe -DNAME=a b -O1 -arch arm64 -std=c11") for call in calls())
    assert all(call.endswith(" -s") for call in calls())


def test_the_fingerprint_is_that_of_the_sources(compiler):
    calls = compiler()
    hatch_build.build()
    (hatch_build.FOLDER / "a.h").write_text("changed")
    hatch_build.build()
    found = [call.split("-DFINGERPRINT=")[1].split()[0] for call in calls()]
    assert len(set(found[:6])) == len(set(found[6:])) == 1
    assert found[0] != found[6]


def test_a_failed_compilation_changes_nothing(compiler):
    compiler()
    hatch_build.build()
    before = {path: path.stat().st_mtime_ns for path in hatch_build.FOLDER.iterdir()}
    compiler(status=1)
    with pytest.raises(subprocess.CalledProcessError):
        hatch_build.build()
    assert {path: path.stat().st_mtime_ns for path in hatch_build.FOLDER.iterdir()} == before


def test_without_a_compiler_nothing_is_built(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    assert hatch_build.build() == []
    done = subprocess.run([sys.executable, hatch_build.__file__], env=os.environ, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["no C compiler: no kernels were built"])
