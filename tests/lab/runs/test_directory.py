"""The run directory: its files, when it is refused, and its state after an interruption."""

import json
import os
import stat

import pytest

from bleugrad.lab.errors import FailureError
from bleugrad.lab.runs import files
from bleugrad.lab.runs.directory import continue_run, read_run, start_run
from bleugrad.lab.runs.files import RecordWriter, read_records
from bleugrad.lab.settings.loading import read_toml


def start(path, **more):
    return start_run(path, study="toy", config="seed = 3\n", seed=3, command="bleugrad toy --seed 3", **more)


def finish(path, **more):
    with start(path, **more) as run:
        run.record(step=0, value=0.5)
        run.say("half way")
        run.summarise({"value": 0.5})
    return path


def test_a_run_says_how_it_was_made(tmp_path):
    saved = read_run(finish(tmp_path / "deep" / "run"))
    assert saved.records == [{"step": 0, "value": 0.5}]
    assert (saved.summary, saved.config) == ({"value": 0.5}, {"seed": 3})
    assert (saved.path / "log.txt").read_text() == "half way\n"
    about = saved.about
    assert (about["status"], about["seed"], about["command"]) == ("finished", 3, "bleugrad toy --seed 3")
    assert {"bleugrad", "python", "torch", "numpy"} <= set(about["versions"])
    assert about["seconds"] >= 0


def test_a_finished_run_is_refused_unless_told_otherwise(tmp_path):
    before = (finish(tmp_path) / "metrics.jsonl").read_text()
    with pytest.raises(FailureError, match=r"holds a finished run.*--overwrite"):
        start(tmp_path)
    assert (tmp_path / "metrics.jsonl").read_text() == before
    finish(tmp_path, overwrite=True)
    assert (tmp_path / "metrics.jsonl").read_text() == before, "the old records are gone"


def test_overwriting_removes_only_what_a_run_writes(tmp_path):
    finish(tmp_path)
    (tmp_path / "notes.md").write_text("mine")
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "figures" / "old.svg").write_text("old")
    with start(tmp_path, overwrite=True):
        assert not (tmp_path / "report.html").exists()
        assert not (tmp_path / "summary.json").exists()
        assert list((tmp_path / "figures").iterdir()) == []
    assert (tmp_path / "notes.md").read_text() == "mine"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_of_something_else_is_refused(tmp_path, overwrite):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FailureError, match="holds no run"):
        start(tmp_path, overwrite=overwrite)
    with pytest.raises(FailureError, match="is a file"):
        start(tmp_path / "thesis.tex", overwrite=overwrite)


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), "interrupted"), (ValueError("odd <b>"), "failed")])
def test_an_interrupted_run_leaves_valid_files_and_can_be_started_again(tmp_path, error, status):
    def break_off():
        with start(tmp_path) as run:
            run.record(step=0, value=0.5)
            raise error

    with pytest.raises(type(error)):
        break_off()
    about = json.loads((tmp_path / "run.json").read_text())
    assert about["status"] == status
    assert type(error).__name__ in about["reason"]
    assert read_records(tmp_path / "metrics.jsonl") == [{"step": 0, "value": 0.5}]
    assert read_toml(tmp_path / "config.toml") == {"seed": 3}
    with pytest.raises(FailureError, match=f"is {status} and has no summary.json"):
        read_run(tmp_path)
    assert read_run(finish(tmp_path)).about["status"] == "finished"


def test_records_are_on_disk_as_they_are_made(tmp_path):
    with start(tmp_path) as run:
        run.record(step=0)
        assert read_records(tmp_path / "metrics.jsonl") == [{"step": 0}]
        assert json.loads((tmp_path / "run.json").read_text())["status"] == "running"
        with pytest.raises(ValueError, match="JSON"):
            run.record(value=float("nan"))


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 0}\n{"step": 1}\n{"st')
    assert read_records(tmp_path / "metrics.jsonl") == [{"step": 0}, {"step": 1}]


def test_what_is_no_run_cannot_be_read(tmp_path):
    with pytest.raises(FailureError, match="holds no run"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(FailureError, match=r"not the run\.json of a run"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(FailureError, match="cannot be read"):
        start(tmp_path)


def test_a_damaged_run_is_said_to_be_one(tmp_path):
    finish(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("not json\n")
    with pytest.raises(FailureError, match="cannot be read"):
        read_run(tmp_path)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    target = tmp_path / "run.json"
    files.write_text(target, "old")

    def fail(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        files.write_text(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_file_and_directory_are_on_the_disk_after_a_write(tmp_path, monkeypatch):
    """The content is synced before the rename, the name after it."""
    events, fsync, replace = [], files.os.fsync, files.os.replace

    def synced(handle):
        events.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def renamed(old, new):
        events.append("rename")
        replace(old, new)

    monkeypatch.setattr(files.os, "fsync", synced)
    monkeypatch.setattr(files.os, "replace", renamed)
    files.write_json(tmp_path / "run.json", {"status": "running"})
    assert events == ["file", "rename", "directory"]
    assert json.loads((tmp_path / "run.json").read_text()) == {"status": "running"}


def test_a_writer_removes_a_line_that_was_cut_off(tmp_path):
    path = tmp_path / "timings.jsonl"
    path.write_text('{"epoch": 1}\n{"epo')
    writer = RecordWriter(path)
    writer.write({"epoch": 2})
    writer.close()
    assert read_records(path) == [{"epoch": 1}, {"epoch": 2}]


@pytest.mark.parametrize("line", ["{", "[1]", "3", "[" * 100_000])
def test_a_damaged_record_is_named(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 0}}\n{line}\n')
    with pytest.raises(FailureError, match=r"metrics\.jsonl cannot be read: line 2 is (damaged|no record)"):
        read_records(tmp_path / "metrics.jsonl")


def test_a_resumed_run_adds_up_its_seconds(tmp_path):
    with start(tmp_path) as run:
        run.began -= 30_000
    with continue_run(tmp_path, config="seed = 3\n", command="another command", seed=4) as run:
        run.began -= 40_000
    about = json.loads((tmp_path / "run.json").read_text())
    assert 70_000 <= about["seconds"] < 79_000
    assert (about["status"], len(about["resumed"])) == ("finished", 1)
    assert (about["command"], about["seed"]) == ("another command", 4)


def test_files_are_as_readable_as_any_other(tmp_path):
    (tmp_path / "plain").write_text("")
    files.write_text(tmp_path / "atomic", "")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode
