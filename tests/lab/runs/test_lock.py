"""One process at a time writes to a run directory, and a signal that ends it leaves a correct status."""

import errno
import json
import os
import platform
import signal
import subprocess
import sys
import threading

import pytest

from bleugrad.lab.commands.main import main
from bleugrad.lab.errors import FailureError
from bleugrad.lab.runs import files
from bleugrad.lab.runs.directory import start_run
from bleugrad.lab.runs.lock import LOCK, Terminated, locked

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
HOLD = """
import sys
from pathlib import Path
from bleugrad.lab.runs.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""
fcntl = pytest.importorskip("fcntl")


@pytest.fixture(autouse=True)
def interruptible():
    """Ctrl-C interrupts, also if the tests run in the background of a shell, which ignores it there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the directory ``run``, until its input ends."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.stdin.close()


def listing(folder):
    return {path: (path.read_bytes() if path.is_file() else None) for path in folder.rglob("*")}


@pytest.mark.parametrize("words", [["toy"], ["train"], ["train", "--resume"], ["train", "--overwrite"], ["reproduce"]])
def test_a_second_process_names_the_holder_and_changes_nothing(holder, tmp_path, capsys, words):
    before = listing(tmp_path)
    assert main([*words, "--output", str(tmp_path / "run")]) == 1
    expected = f"{tmp_path / 'run'} is in use by process {holder.pid} on {platform.node()}; wait for its end"
    shown = capsys.readouterr().err
    assert expected in shown
    assert len(shown.splitlines()) == 1
    assert listing(tmp_path) == before


def test_a_killed_process_holds_nothing(holder, tmp_path):
    with pytest.raises(FailureError, match=f"is in use by process {holder.pid} on"), locked(tmp_path / "run"):
        pytest.fail("both hold the lock")
    holder.kill()
    holder.wait()
    assert (tmp_path / "run" / LOCK).exists(), "it could not clean up"
    with locked(tmp_path / "run"), start(tmp_path / "run"):
        pass
    assert not (tmp_path / "run" / LOCK).exists()


def test_a_lock_file_that_its_holder_removes_is_not_the_lock(tmp_path, monkeypatch):
    """The last holder removes the file after we have opened it: locking that file would exclude nobody."""
    flock, calls = fcntl.flock, []

    def late(handle, how):
        if not calls:
            (tmp_path / LOCK).unlink()
        calls.append(handle)
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked(tmp_path):
        assert len(calls) == 2
        with pytest.raises(FailureError, match=f"is in use by process {os.getpid()}"), locked(tmp_path):
            pytest.fail("both hold the lock")


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_has_none(tmp_path, monkeypatch, number):
    def flock(handle, how):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path / "run"), start(tmp_path / "run"):
        pass
    assert status(tmp_path / "run") == "finished"
    assert not (tmp_path / "run" / LOCK).exists()


def test_a_lock_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    def flock(handle, how):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", flock)
    with (
        pytest.raises(FailureError, match=r"cannot write the run to .*run: Input/output error"),
        locked(tmp_path / "run"),
    ):
        pytest.fail("there is no lock")


def test_folders_that_stay_empty_are_removed(tmp_path):
    with locked(tmp_path / "deep" / "run"):
        assert (tmp_path / "deep" / "run").is_dir()
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "deep" / "run"):
        (tmp_path / "deep" / "run" / "kept").write_text("")
    assert (tmp_path / "deep" / "run" / "kept").exists()


def test_stages_in_use_are_not_removed(tmp_path):
    from bleugrad.lab.experiments.paper.study import remove_stages

    stages = [tmp_path / "seed-1" / name for name in ("base", "exact-lr1e-4", "other")]
    for stage in stages:
        with start(stage, study="train"):
            pass
    with locked(stages[1]):
        before = listing(tmp_path)
        with pytest.raises(FailureError, match="exact-lr1e-4 is in use by"):
            remove_stages(tmp_path)
        assert listing(tmp_path) == before
    remove_stages(tmp_path)
    assert list((tmp_path / "seed-1").iterdir()) == []


def start(path, study="toy"):
    return start_run(path, study=study, config="", seed=0, command="")


def status(path):
    return json.loads((path / "run.json").read_text())["status"]


@pytest.mark.parametrize(("first", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
@pytest.mark.parametrize("again", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_status_is_written_changes_nothing(tmp_path, monkeypatch, first, error, again):
    fsync = os.fsync

    def interrupted(handle):
        os.kill(os.getpid(), again)
        fsync(handle)

    def work():
        with locked(tmp_path), start(tmp_path):
            monkeypatch.setattr(files.os, "fsync", interrupted)
            os.kill(os.getpid(), first)

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(error):
        work()
    assert status(tmp_path) == "interrupted"
    assert not list(tmp_path.glob(".*"))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_signal_while_a_finished_run_is_closed_leaves_no_running_status(tmp_path, monkeypatch):
    fsync = os.fsync

    def interrupted(handle):
        os.kill(os.getpid(), signal.SIGTERM)
        fsync(handle)

    def work():
        with locked(tmp_path), start(tmp_path):
            monkeypatch.setattr(files.os, "fsync", interrupted)

    with pytest.raises(Terminated):
        work()
    assert status(tmp_path) == "interrupted"


def test_a_signal_while_a_run_is_opened_leaves_no_running_status(tmp_path, monkeypatch):
    from bleugrad.lab.runs import directory

    def interrupted(path):
        assert status(tmp_path) == "running"
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(directory, "_remove_old", interrupted)
    with pytest.raises(Terminated), locked(tmp_path), start(tmp_path):
        pytest.fail("the run was opened")
    assert status(tmp_path) == "interrupted"


def test_an_interrupt_that_was_dealt_with_does_not_hide_the_next_one(tmp_path):
    with locked(tmp_path):
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(Terminated), locked(tmp_path):
            os.kill(os.getpid(), signal.SIGTERM)


def test_handlers_of_the_program_around_and_other_threads_are_left_alone(tmp_path):
    seen, before = [], signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with locked(tmp_path):
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
    found = []

    def hold():
        with locked(tmp_path / "thread"):
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]
