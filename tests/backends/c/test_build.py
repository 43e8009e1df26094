"""Building the kernels: once per machine, completely or not at all; a machine that cannot build them still works."""

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import torch

from bleugrad.backends.c import build, library

BUILD = "from bleugrad.backends.c.build import library_path; print(library_path('float'))"
COMPILER = """#!/bin/sh
for last; do :; done
if [ "$last" = "--version" ]; then echo "{version}"; exit 0; fi
echo "$@" >> "{log}"
sleep {seconds}
for each; do if [ "$each" = "{unknown}" ]; then exit 1; fi; done
printf library > "$last"
exit {status}
"""


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A stand-in that writes a line to the log for each library; returns a function that sets how it behaves."""
    path, log = tmp_path / "cc", tmp_path / "log"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(path))
    monkeypatch.setattr(build, "_warned", False)

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


def test_a_failed_build_is_no_library(compiler, tmp_path):
    compiler(status=1)
    with pytest.warns(RuntimeWarning, match="no compiled kernels, slower torch operations take their place: .* failed"):
        assert library_path() is None
    assert list((tmp_path / "cache" / "bleugrad" / "kernels").iterdir()) == []


def test_without_a_compiler_there_is_no_library_and_one_warning(compiler, tmp_path, monkeypatch):
    for given in (str(tmp_path / "none"), "gcc 'x"):
        monkeypatch.setenv("CC", given)
        monkeypatch.setattr(build, "_warned", False)
        with pytest.warns(RuntimeWarning, match="no compiled kernels.*none|no compiled kernels.*CC is") as said:
            assert [library_path(), library_path("double")] == [None, None]
        assert len(said) == 1
        assert "set BLEUGRAD_KERNELS=0" in str(said[0].message)


def test_options_in_cc_reach_the_compiler(compiler, tmp_path, monkeypatch):
    runs = compiler()
    plain = library_path()
    monkeypatch.setenv("CC", f"{tmp_path / 'cc'} -pipe -DNAME='a b'")
    assert library_path().read_text() == "library"
    assert library_path() != plain
    assert runs()[1].startswith("-pipe -DNAME=a b -fopenmp -std=c11")


def assert_built_elsewhere(runs, tmp_path, reason):
    """The kernels are built in a private folder of this process, with a warning; nothing is loaded from the cache."""
    before = len(runs())
    with pytest.warns(RuntimeWarning, match=f"every process compiles them again: .*{reason}"):
        path = library_path()
    assert path.read_text() == "library"
    assert tmp_path / "cache" not in path.parents
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert len(runs()) == before + 1


def test_without_a_place_to_keep_it_the_library_is_built_for_this_process(compiler, tmp_path, monkeypatch):
    runs = compiler()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert_built_elsewhere(runs, tmp_path, "Not a directory")


@pytest.mark.parametrize("trap", ["owner", "group", "others", "link", "parent"])
def test_nothing_is_loaded_from_a_folder_others_can_change(compiler, tmp_path, monkeypatch, trap):
    runs = compiler()
    folder = library_path().parent
    if trap == "owner":
        monkeypatch.setattr(build.os, "geteuid", lambda: os.getuid() + 1)
    elif trap == "link":
        folder.rename(tmp_path / "theirs")
        folder.symlink_to(tmp_path / "theirs")
    else:
        changed, mode = {"group": (folder, 0o720), "others": (folder, 0o702), "parent": (tmp_path / "cache", 0o777)}[
            trap
        ]
        changed.chmod(mode)
    reason = "may be written to by every user" if trap == "parent" else "a link, belongs to another user, or"
    assert_built_elsewhere(runs, tmp_path, reason)


def test_a_shared_folder_where_nobody_can_rename_files_of_others_will_do(compiler, tmp_path):
    runs = compiler()
    first = library_path()
    (tmp_path / "cache").chmod(0o1777)
    assert library_path() == first
    assert len(runs()) == 1


def truncate(path):
    path.write_bytes(path.read_bytes()[:3])


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def link(path):
    path.rename(path.with_suffix(".other"))
    path.symlink_to(path.with_suffix(".other"))


DAMAGE = {
    "truncated": truncate,
    "empty": lambda path: path.write_bytes(b""),
    "changed": lambda path: path.write_bytes(b"LIBRARY"),
    "fifo": fifo,
    "link": link,
    "writable": lambda path: path.chmod(0o666),
    "absent": lambda path: path.unlink(),
}


@pytest.mark.parametrize("part", ["library", "checksum"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_library_is_built_again(compiler, damage, part):
    runs = compiler()
    path = library_path()
    DAMAGE[damage](path if part == "library" else path.with_name(path.name + ".sha256"))
    assert library_path() == path
    assert len(runs()) == 2
    assert path.read_text() == "library"
    assert not path.is_symlink()
    assert library_path() == path
    assert len(runs()) == 2


def test_the_mask_of_new_files_does_not_make_a_library_untrusted(compiler):
    runs = compiler()
    before = os.umask(0o002)
    try:
        assert library_path() == library_path()
    finally:
        os.umask(before)
    assert len(runs()) == 1


def test_files_reach_the_disk_before_they_get_their_names(compiler, monkeypatch):
    compiler()
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(build.os, "fsync", lambda h: events.append(Path(f"/proc/self/fd/{h}").resolve()) or fsync(h))
    monkeypatch.setattr(build.os, "replace", lambda a, b: events.append(b) or replace(a, b))
    path = library_path()
    names = [path.name, path.name, f"{path.name}.sha256", f"{path.name}.sha256", "kernels"]
    assert [event.name for event in events] == names
    assert events[1] == path


def test_a_compiler_that_hangs_is_ended_with_its_children(compiler, tmp_path, monkeypatch):
    compiler()
    children = tmp_path / "children"
    (tmp_path / "cc").write_text(
        f'#!/bin/sh\nif [ "$1" = "--version" ]; then exit 0; fi\nsleep 600 & echo $! > {children}\nwait\n'
    )
    monkeypatch.setattr(build, "SECONDS", 1)
    with pytest.warns(RuntimeWarning, match="no compiled kernels.*timed out after 1 seconds"):
        assert library_path() is None
    child = int(children.read_text())
    deadline = time.monotonic() + 60
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(child)


def is_running(process):
    """Whether a process is running; a zombie is not."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_library_without_the_functions_is_not_used(compiler, tmp_path, monkeypatch):
    """A compiler that makes a valid library without our functions."""
    real = build.shutil.which("cc")
    if real is None:
        pytest.skip("no C compiler")
    compiler()
    (tmp_path / "empty.c").touch()
    (tmp_path / "cc").write_text(
        '#!/bin/sh\nif [ "$1" = "--version" ]; then exit 0; fi\n'
        f'for last; do :; done\nexec {real} -shared -fPIC {tmp_path / "empty.c"} -o "$last"\n'
    )
    monkeypatch.setattr(library, "library_path", library_path)
    with pytest.warns(RuntimeWarning, match="cannot be loaded.*undefined symbol") as said:
        assert [library._load.__wrapped__(name) for name in ("float", "double")] == [None, None]
    assert len(said) == 1


def test_kernels_switched_off_on_purpose_are_not_warned_about(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    monkeypatch.setenv(build.SWITCH, "0")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert library.library_for(torch.empty(1)) is None
    assert not said


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
from bleugrad.backends.c.library import library_for
torch.manual_seed(0)
logits = torch.randn(2, 5, 9, requires_grad=True)
labels = torch.randint(9, (2, 5))
loss = bleugrad.ExpectedBLEULoss(word_start=torch.arange(9) % 2 == 0)(logits, labels)
loss.backward()
print(library_for(logits) is None, round(loss.item(), 5), round(logits.grad.norm().item(), 5))
"""


@pytest.mark.parametrize("broken", ["compiler", "library"])
def test_losses_work_where_kernels_do_not(compiler, monkeypatch, capsys, broken):
    """No compiler at all, or one whose library cannot be loaded."""
    if broken == "library":
        compiler()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), build.SWITCH: ""}
    done = subprocess.run([sys.executable, "-c", LOSS], env=environment, capture_output=True, text=True, check=True)
    monkeypatch.setenv(build.SWITCH, "0")
    exec(LOSS, {})
    assert done.stderr.count("RuntimeWarning") == 1
    assert done.stdout == capsys.readouterr().out
    assert done.stdout.startswith("True")
