"""Weights & Biases as a module of our own: no account, no network."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from bleugrad.lab.errors import FailureError
from bleugrad.lab.training.run import train_run
from tests.lab.training.corpora import small_config


class FakeRun:
    def __init__(self, **given):
        self.given, self.logged, self.finished = given, [], False

    def log(self, values, step):
        self.logged.append((step, values))

    def finish(self):
        self.finished = True


@pytest.fixture
def runs(monkeypatch):
    fake = ModuleType("wandb")
    fake.__spec__ = ModuleSpec("wandb", None)
    found = []
    fake.init = lambda **given: found.append(FakeRun(**given)) or found[-1]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return found


def test_losses_and_scores_are_sent(corpus, tmp_path, runs):
    train_run(small_config(corpus, wandb=True, optimizer__epochs=1), tmp_path / "run")
    (run,) = runs
    assert run.finished
    assert run.given["name"] == "run"
    assert run.given["dir"] == str(tmp_path / "run")
    assert run.given["config"]["optimizer"]["epochs"] == 1
    assert [step for step, _ in run.logged] == [2, 4, 5]
    assert set(run.logged[0][1]) == {"step/loss", "step/gradient_norm", "step/learning_rate"}
    assert run.logged[-1][1]["epoch/bleu"] >= 0
    train_run(small_config(corpus, wandb=True), tmp_path / "run", resume=True)
    assert runs[1].given["id"] == run.given["id"], "a resumed run is the same run there"
    assert runs[1].logged[0][0] == 6


def test_nothing_is_sent_without_the_option(corpus, tmp_path, runs):
    train_run(small_config(corpus, optimizer__epochs=1), tmp_path)
    assert runs == []


def test_the_missing_package_is_named(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr("bleugrad.lab.extras.find_spec", lambda name: None if name == "wandb" else True)
    with pytest.raises(FailureError, match=r"needs wandb, which is not installed; .*bleugrad\[wandb\]"):
        train_run(small_config(corpus, wandb=True), tmp_path)
