"""A run that is killed and resumed ends with the same files, to the bit."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.training.corpora import TRANSFORMER, small_config
from tests.lab.training.kill_points import COMPARED, RESULTS

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path]), "OMP_NUM_THREADS": "1"}
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def kill_and_resume(kind, corpus, folder, *points):
    command = [sys.executable, Path(__file__).with_name("kill_points.py"), kind, corpus, folder, *map(str, points)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.partition(RESULTS)[2])


def check(results):
    same = {"killed": True, "again": True, "resumed": True, "differences": []}
    files = {"left": ["best.safetensors", "last.safetensors"]}
    wrong = {point: found for point, found in results.items() if found != same | files}
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_killed_at_any_moment_a_run_resumes_to_the_same_files(corpus, tmp_path, kind):
    found = kill_and_resume(kind, corpus, tmp_path)
    assert found["total"] == len(found["results"]) > 60
    check(found["results"])


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the run did not come so far in a minute"
        time.sleep(0.01)


@pytest.mark.slow
def test_the_command_is_killed_in_the_middle_and_resumes(corpus, finished, tmp_path):
    settings = (finished / "config.toml").read_text().replace("epochs = 2", "epochs = 40")
    (tmp_path / "train.toml").write_text(settings)
    words = [sys.executable, "-m", "bleugrad", "train", "--config", str(tmp_path / "train.toml"), "--output"]

    def run(name, *more):
        return subprocess.run([*words, tmp_path / name, *more], env=ENVIRONMENT, capture_output=True, check=True)

    run("whole")
    process = subprocess.Popen([*words, tmp_path / "killed"], env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    checkpoint, records = (tmp_path / "killed" / name for name in ("checkpoints/last.safetensors", "metrics.jsonl"))
    wait_for(checkpoint.exists)
    size = records.stat().st_size
    wait_for(lambda: records.stat().st_size > size)  # steps after the checkpoint are lost
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert json.loads((tmp_path / "killed" / "run.json").read_text())["status"] == "running"
    run("killed", "--resume")
    for name in COMPARED:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    about = json.loads((tmp_path / "killed" / "run.json").read_text())
    assert about["status"] == "finished"
    assert len(about["resumed"]) == 1


class Broken(Exception):
    """Stands for any exception inside a run."""


def break_off(corpus, path, monkeypatch, steps, **more):
    from bleugrad.lab.training.run import train_run
    from bleugrad.lab.training.trainer import Trainer

    take_step = Trainer.take_step

    def stop(trainer, window):
        if trainer.position.step == steps:
            raise Broken
        return take_step(trainer, window)

    monkeypatch.setattr(Trainer, "take_step", stop)
    with pytest.raises(Broken):
        train_run(small_config(corpus, **more), path)
    monkeypatch.setattr(Trainer, "take_step", take_step)


SAMPLED = {"objective__name": "reinforce", "objective__feeding": "sample", "model__dropout": 0.3}


@pytest.mark.parametrize(
    "more", [{}, SAMPLED, {"optimizer__decay": "step", "optimizer__patience": 1}, TRANSFORMER, TRANSFORMER | SAMPLED]
)
@pytest.mark.parametrize("steps", [1, 4, 9])
def test_random_numbers_and_learning_rates_are_those_of_a_whole_run(corpus, tmp_path, monkeypatch, more, steps):
    from bleugrad.lab.training.run import train_run

    config = small_config(corpus, **more)
    train_run(config, tmp_path / "whole")
    break_off(corpus, tmp_path / "broken", monkeypatch, steps, **more)
    train_run(config, tmp_path / "broken", resume=True)
    for name in COMPARED:
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_timings_are_those_of_the_steps_that_were_taken(corpus, tmp_path, monkeypatch, capsys):
    """A clock that only steps move, by half a second each: the epoch that was interrupted takes no less per step."""
    from bleugrad.lab.runs.files import read_records
    from bleugrad.lab.training import trainer
    from bleugrad.lab.training.run import train_run

    now, take_step = [0.0], trainer.Trainer.take_step

    def step(self, window):
        now[0] += 0.5
        return take_step(self, window)

    monkeypatch.setattr(trainer.Trainer, "take_step", step)
    monkeypatch.setattr(trainer.time, "monotonic", lambda: now[0])
    break_off(corpus, tmp_path, monkeypatch, 8)
    with (tmp_path / "timings.jsonl").open("a") as timings:
        timings.write('{"epoch": 2, "st')  # killed while it was written
    train_run(small_config(corpus, optimizer__epochs=3), tmp_path, resume=True)
    assert read_records(tmp_path / "timings.jsonl") == [
        {"epoch": 1, "steps": 5, "seconds": 2.5},
        {"epoch": 2, "steps": 4, "seconds": 2.0},  # from the checkpoint after step 6
        {"epoch": 3, "steps": 5, "seconds": 2.5},
    ]
    assert capsys.readouterr().out.count(" 2.0 steps/s") == 3
    train_run(small_config(corpus, optimizer__epochs=1), tmp_path, overwrite=True)
    assert len(read_records(tmp_path / "timings.jsonl")) == 1


def test_a_finished_run_can_be_trained_for_longer(corpus, tmp_path):
    from bleugrad.lab.training.run import train_run

    train_run(small_config(corpus, optimizer__epochs=1), tmp_path / "longer")
    train_run(small_config(corpus), tmp_path / "longer", resume=True)
    train_run(small_config(corpus), tmp_path / "whole")
    for name in COMPARED:
        assert (tmp_path / "longer" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.mark.parametrize(("second", "kept"), [(0.3, False), (0.1, True)])
def test_better_weights_take_the_evaluations_of_those_before_away(corpus, tmp_path, monkeypatch, second, kept):
    from bleugrad.lab.training import trainer
    from bleugrad.lab.training.run import train_run

    measure, bleu = trainer.score, iter([0.2, second])
    monkeypatch.setattr(trainer, "score", lambda *given: replace(measure(*given), bleu=next(bleu)))
    train_run(small_config(corpus, optimizer__epochs=1), tmp_path)
    files = [tmp_path / "evaluations" / name for name in ("test.greedy.json", "test.greedy.txt", "notes.md")]
    files[0].parent.mkdir()
    for file in files:
        file.write_text("")
    train_run(small_config(corpus), tmp_path, resume=True)
    assert [file.exists() for file in files] == [kept, kept, True]


def test_resuming_a_finished_run_changes_no_result(corpus, tmp_path):
    from bleugrad.lab.training.run import train_run

    first = train_run(small_config(corpus), tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in COMPARED}
    assert train_run(small_config(corpus), tmp_path, resume=True) == first
    assert before == {name: (tmp_path / name).read_bytes() for name in COMPARED}


def test_resume_without_a_run_starts_one(corpus, tmp_path):
    from bleugrad.lab.training.run import train_run

    assert train_run(small_config(corpus), tmp_path / "new", resume=True)["epochs"] == 2
