"""Validation after each epoch, the mean of the last weights, and the search that chooses them."""

import json

import pytest
import torch

from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.training import trainer as trainer_module
from bleugrad.lab.training.checkpoints import read_checkpoint
from bleugrad.lab.training.run import train_run
from tests.lab.training.corpora import TRANSFORMER, small_config
from tests.lab.training.kill_points import COMPARED
from tests.lab.training.test_resume import break_off

LAST, BEST = "checkpoints/last.safetensors", "checkpoints/best.safetensors"
WARM = {"optimizer__warmup": 3, "optimizer__decay": "inverse_sqrt", "optimizer__weight_decay": 0.1}
MODERN = TRANSFORMER | WARM | {"optimizer__average": 3, "objective__label_smoothing": 0.1}


def steps_of(summary):
    return [(scores["epoch"], scores["step"]) for scores in summary["history"]]


def test_every_epoch_is_validated(corpus, tmp_path):
    """An epoch has 5 steps."""
    summary = train_run(small_config(corpus, optimizer__epochs=3), tmp_path)
    assert steps_of(summary) == [(1, 5), (2, 10), (3, 15)]
    assert (summary["epochs"], summary["steps"]) == (3, 15)
    best = max(summary["history"], key=lambda scores: scores["bleu"])
    assert summary["best_step"] == best["step"]


def test_train_losses_are_those_since_the_last_validation(corpus, tmp_path):
    config = small_config(corpus, record_every=1)
    train_run(config, tmp_path)
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    losses, means = [], []
    for record in records:
        if record["kind"] == "step":
            losses.append(record["loss"])
        else:
            means.append((record["train_loss"], losses))
            losses = []
    assert [len(since) for _, since in means] == [5, 5]
    for mean, since in means:
        assert mean == pytest.approx(sum(since) / len(since), rel=1e-12)


@pytest.mark.parametrize("steps", [2, 6, 9])
def test_a_resumed_run_has_the_same_files(corpus, tmp_path, monkeypatch, steps):
    train_run(small_config(corpus, **MODERN), tmp_path / "whole")
    break_off(corpus, tmp_path / "broken", monkeypatch, steps, **MODERN)
    train_run(small_config(corpus, **MODERN), tmp_path / "broken", resume=True)
    for name in COMPARED:
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_early_stopping_counts_validations(corpus, tmp_path):
    more = {"optimizer__early_stopping": 2, "optimizer__learning_rate": 1e-9}
    summary = train_run(small_config(corpus, optimizer__epochs=9, **more), tmp_path)
    assert steps_of(summary) == [(1, 5), (2, 10), (3, 15)]
    assert train_run(small_config(corpus, optimizer__epochs=9, **more), tmp_path, resume=True) == summary


def test_the_best_weights_are_the_mean_of_the_last(corpus, tmp_path, monkeypatch):
    seen, scored, score = [], iter([0.1, 0.2, 0.3]), trainer_module.score
    validate = trainer_module.Trainer.validate

    def watched(trainer, epoch):
        seen.append({name: value.detach().clone() for name, value in trainer.model.named_parameters()})
        validate(trainer, epoch)
        for name, value in trainer.model.named_parameters():
            assert torch.equal(value, seen[-1][name]), "training goes on from its own weights"

    def always_better(*given):
        return trainer_module.replace(score(*given), bleu=next(scored))

    monkeypatch.setattr(trainer_module.Trainer, "validate", watched)
    monkeypatch.setattr(trainer_module, "score", always_better)
    train_run(small_config(corpus, optimizer__epochs=3, optimizer__average=2), tmp_path)
    best = read_checkpoint(tmp_path / BEST)
    for name, value in best.weights.items():
        torch.testing.assert_close(value, (seen[1][name] + seen[2][name]) / 2, rtol=0, atol=1e-7)
    assert not best.recent
    last = read_checkpoint(tmp_path / LAST)
    assert set(last.recent) == {f"{place}.{name}" for place in range(2) for name in best.weights}
    monkeypatch.undo()
    damaged = trainer_module.replace(last, recent={name: one[:0] for name, one in last.recent.items()})
    trainer_module.write_checkpoint(tmp_path / LAST, damaged)
    with pytest.raises(FailureError, match="does not fit the model"):
        train_run(small_config(corpus, optimizer__epochs=4, optimizer__average=2), tmp_path, resume=True)


def test_the_width_of_the_search_is_that_of_the_settings(corpus, tmp_path, monkeypatch):
    widths, translate = [], trainer_module.translate_ids

    def watched(*given, width=1, **more):
        widths.append(width)
        return translate(*given, width=width, **more)

    monkeypatch.setattr(trainer_module, "translate_ids", watched)
    train_run(small_config(corpus, optimizer__epochs=1, evaluation__validation_beam=3), tmp_path)
    assert widths == [3]
    with pytest.raises(UsageError, match=r"validation_beam is 3 with model\.kind 'nat', which needs no search"):
        small_config(corpus, evaluation__validation_beam=3, model__kind="nat", model__heads=2)


def test_a_cosine_ends_with_the_last_epoch(corpus, tmp_path):
    more = {"optimizer__decay": "cosine", "optimizer__warmup": 2, "record_every": 1}
    train_run(small_config(corpus, **more), tmp_path)
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    rates = [record["learning_rate"] for record in records if record["kind"] == "step"]
    assert rates[:3] == pytest.approx([0.005, 0.01, 0.01])
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert rates[-1] < 0.001
    with pytest.raises(UsageError, match=r"optimizer\.epochs is 3, and 2 in the run"):
        train_run(small_config(corpus, optimizer__epochs=3, **more), tmp_path, resume=True)
