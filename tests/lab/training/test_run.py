"""Settings that a training run refuses, and files that a failed run does not change."""

import errno
import json
import math
import shutil

import pytest
import torch
from safetensors.torch import save_file

from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.training import checkpoints, trainer
from bleugrad.lab.training.checkpoints import read_checkpoint
from bleugrad.lab.training.processes import SingleProcess
from bleugrad.lab.training.run import read_config, train_run
from tests.lab.training.corpora import small_config, write_corpus

LAST, BEST = "checkpoints/last.safetensors", "checkpoints/best.safetensors"


@pytest.fixture
def broken_off(finished, tmp_path):
    """A copy of a run, as if it had been killed after its first checkpoint."""
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(about | {"status": "running"}))
    (run / "summary.json").unlink()
    return run


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_holds_what_is_needed_to_use_it(finished):
    summary = json.loads((finished / "summary.json").read_text())
    assert summary["epochs"] == len(summary["history"]) == 2
    assert summary["best_bleu"] == max(scores["bleu"] for scores in summary["history"])
    assert summary["bleu_signature"].startswith("nrefs:1|")
    assert "tok:none" in summary["bleu_signature"]
    kinds = [json.loads(line)["kind"] for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert kinds == ["step", "step", "epoch", "step", "step", "step", "epoch"]
    assert read_checkpoint(finished / BEST).optimizer == {}, "the best weights are kept to translate with"
    log = (finished / "log.txt").read_text()
    assert "train 40, valid " in log
    assert "best: epoch" in log


def test_an_unfinished_run_is_not_replaced_by_mistake(corpus, broken_off):
    before = contents(broken_off)
    with pytest.raises(
        FailureError, match=r"is running, with a checkpoint; resume it with --resume, replace it with --over"
    ):
        train_run(small_config(corpus), broken_off)
    assert contents(broken_off) == before
    train_run(small_config(corpus, optimizer__epochs=1), broken_off, overwrite=True)
    assert read_checkpoint(broken_off / LAST).state["position"]["epoch"] == 2


class SecondRank(SingleProcess):
    """The second of two processes, whose first was told that the directory is in use."""

    rank, world = 1, 2

    def gather(self, value):
        return ["run is in use by process 7 on host", value]


def test_a_rank_says_why_the_first_could_not_lock_the_directory(corpus, tmp_path):
    with pytest.raises(FailureError, match="run is in use by process 7 on host"):
        train_run(small_config(corpus), tmp_path / "run", processes=SecondRank("cpu"))
    assert not (tmp_path / "run").exists(), "only rank 0 takes the lock"


def test_a_finished_run_is_not_replaced_by_mistake(corpus, finished):
    before = contents(finished)
    with pytest.raises(FailureError, match="holds a finished run"):
        train_run(small_config(corpus), finished)
    assert contents(finished) == before


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def make_pickle(path):
    torch.save({"weights": torch.zeros(3)}, path)


def make_foreign(path):
    save_file({"weights": torch.zeros(3)}, path)


def make_newer(path):
    content = path.read_bytes()
    assert content.count(b'\\"version\\": 2') == 1
    path.write_bytes(content.replace(b'\\"version\\": 2', b'\\"version\\": 3'))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "is cut off, damaged, or no checkpoint at all"),
        (lambda path: path.write_bytes(b""), "is cut off, damaged, or no checkpoint at all"),
        (make_pickle, "is cut off, damaged, or no checkpoint at all"),
        (make_foreign, "holds tensors, but is no checkpoint of bleugrad"),
        (make_newer, "has format 3; this version of bleugrad reads format 2"),
    ],
)
@pytest.mark.parametrize("how", [{"resume": True}, {"overwrite": True}])
def test_what_is_no_checkpoint_is_said_and_never_overwritten(corpus, broken_off, damage, message, how):
    damage(broken_off / LAST)
    before = contents(broken_off)
    with pytest.raises(FailureError, match=message):
        train_run(small_config(corpus), broken_off, **how)
    assert contents(broken_off) == before


class Exploding:
    """What a pickle could do when it is loaded."""

    def __reduce__(self):
        return (pytest.fail, ("the checkpoint was executed",))


def test_a_checkpoint_is_never_executed(corpus, broken_off):
    import pickle

    (broken_off / LAST).write_bytes(pickle.dumps(Exploding()))
    with pytest.raises(FailureError, match="no checkpoint at all"):
        train_run(small_config(corpus), broken_off, resume=True)


def test_a_full_disk_leaves_the_last_checkpoint_and_says_so(corpus, tmp_path, monkeypatch, capsys):
    write_bytes, written = checkpoints.write_bytes, []

    def fill(path, content):
        if len(written) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_bytes(path, content)
        written.append({path.name: content})

    monkeypatch.setattr(checkpoints, "write_bytes", fill)
    message = r"cannot save .*safetensors: No space left on device; what was saved before is untouched"
    with pytest.raises(FailureError, match=message):
        train_run(small_config(corpus), tmp_path / "run")
    kept = {name: content for one in written for name, content in one.items()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "run" / "checkpoints").iterdir()} == kept
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"
    monkeypatch.undo()
    resumed = train_run(small_config(corpus), tmp_path / "run", resume=True)
    assert resumed == train_run(small_config(corpus), tmp_path / "whole")


def test_a_disk_that_takes_nothing_more_is_still_one_line(corpus, tmp_path, monkeypatch):
    from bleugrad.lab.runs import files
    from bleugrad.lab.training.trainer import Trainer

    train_epoch = Trainer.train_epoch

    def then_full(trainer):
        train_epoch(trainer)

        def fail(handle):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(files.os, "fsync", fail)

    monkeypatch.setattr(Trainer, "train_epoch", then_full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        train_run(small_config(corpus), tmp_path / "run")
    assert caught.value.filename == str(tmp_path / "run" / "metrics.jsonl"), "what failed first is what is said"
    monkeypatch.undo()
    read_checkpoint(tmp_path / "run" / LAST)
    assert [path for path in (tmp_path / "run").rglob(".*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"model__hidden": 7}, r"model\.hidden is 7, and 6 in the run"),
        ({"seed": 3}, "seed is 3, and 0 in the run"),
        ({"objective__name": "exact"}, r"objective\.name is 'exact', and 'ce' in the run"),
    ],
)
def test_a_run_goes_on_with_its_own_settings_only(corpus, broken_off, more, message):
    with pytest.raises(UsageError, match=message):
        train_run(small_config(corpus, **more), broken_off, resume=True)


def test_a_run_goes_on_with_its_own_text_only(finished, tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    write_corpus(folder)
    train_run(small_config(folder), tmp_path / "run")
    write_corpus(folder, seed=1)
    with pytest.raises(FailureError, match="training text is not the one"):
        train_run(small_config(folder), tmp_path / "run", resume=True)


def test_a_vocabulary_that_does_not_fit_is_refused(corpus, broken_off):
    path = broken_off / "vocabulary.target.json"
    saved = json.loads(path.read_text())
    path.write_text(json.dumps(saved | {"tokens": [*saved["tokens"], "new"]}))
    with pytest.raises(FailureError, match=r"vocabulary\.target\.json does not fit .*it has 12 tokens.*with 11 tokens"):
        train_run(small_config(corpus), broken_off, resume=True)
    with pytest.raises(FailureError, match=r"vocabulary\.target\.json does not fit"):
        train_run(small_config(corpus), broken_off.with_name("tuned"), initial=broken_off)
    assert not broken_off.with_name("tuned").exists()
    path.write_text("{}")
    with pytest.raises(FailureError, match="is not a vocabulary"):
        train_run(small_config(corpus), broken_off, resume=True)
    path.unlink()
    with pytest.raises(FailureError, match=r"vocabulary\.target\.json is missing"):
        train_run(small_config(corpus), broken_off, resume=True)


def test_tuning_starts_from_the_best_weights(corpus, finished, tmp_path):
    config = small_config(corpus, objective__name="exact", optimizer__learning_rate=1e-9)
    summary = train_run(config, tmp_path / "tuned", initial=finished, study="tune")
    before = json.loads((finished / "summary.json").read_text())
    assert [scores["epoch"] for scores in summary["history"]] == [0, 1, 2]
    assert summary["history"][0]["bleu"] == before["best_bleu"]
    old, new = (read_checkpoint(run / BEST).weights for run in (finished, tmp_path / "tuned"))
    for name, weights in old.items():
        torch.testing.assert_close(new[name], weights, rtol=0, atol=1e-6)


def test_weights_of_another_size_are_refused(corpus, finished, tmp_path):
    with pytest.raises(
        FailureError, match=r"does not fit the model: source_embedding\.weight is 11x6 of float32 in the checkpoint"
    ):
        train_run(small_config(corpus, model__embedding=5), tmp_path / "tuned", initial=finished)


@pytest.mark.parametrize("clip", [0, 5])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_stops_the_run(corpus, tmp_path, monkeypatch, value, clip):
    """The fault is put in, not provoked: whether a large learning rate overflows depends on the processor's kernels."""
    build, steps = trainer.build_objective, []

    def faulty(model, *rest, **options):
        def damage(gradient):
            steps.append(gradient)
            return torch.full_like(gradient, value) if len(steps) == 2 else gradient

        next(model.parameters()).register_hook(damage)
        return build(model, *rest, **options)

    monkeypatch.setattr(trainer, "build_objective", faulty)
    with pytest.raises(FailureError, match="the gradient at step 2 is not finite"):
        train_run(small_config(corpus, optimizer__clip=clip), tmp_path)


def test_early_stopping_ends_a_run_that_does_not_improve(corpus, tmp_path):
    config = small_config(corpus, optimizer__learning_rate=1e-9, optimizer__epochs=9, optimizer__early_stopping=2)
    assert train_run(config, tmp_path)["epochs"] == 3


def test_settings_of_curves_and_of_a_cache_are_read_and_ignored(corpus, tmp_path):
    train_run(small_config(corpus, optimizer__epochs=1), tmp_path)
    path = tmp_path / "config.toml"
    before, text = read_config(tmp_path), path.read_text()
    text = text.replace("record_every", "tensorboard = true\nwandb = true\nrecord_every", 1)
    path.write_text(text.replace("[data]", '[data]\ncache = "auto"\nsentencepiece_source = ""', 1))
    assert read_config(tmp_path) == before
    path.write_text(text.replace("[data]", '[data]\nsentencepiece_source = "a.model"', 1))
    with pytest.raises(FailureError, match=r"unknown setting 'data\.sentencepiece_source'"):
        read_config(tmp_path)
    path.write_text(text.replace('units = "words"', 'units = "sentencepiece"', 1))
    with pytest.raises(FailureError, match=r"data\.units is 'sentencepiece'; expected 'words' or 'bpe'"):
        read_config(tmp_path)


def test_evaluation_reads_only_its_split(tmp_path):
    from bleugrad.lab.training.evaluation import evaluate_run

    folder = tmp_path / "corpus"
    folder.mkdir()
    write_corpus(folder)
    train_run(small_config(folder), tmp_path / "run")
    for path in folder.glob("[tv][ra][al]*"):
        path.unlink()  # train and valid
    assert sorted(path.name for path in folder.iterdir()) == ["test.de", "test.en"]
    (found,) = evaluate_run(tmp_path / "run", "cpu", "test", [1])
    assert found.scores.sentences == 5
