"""Training steps: gradient accumulation, parts of a batch, learning rate schedules, and precision."""

import pytest
import torch

from bleugrad.lab.data.batches import BatchPlan
from bleugrad.lab.data.preparation import prepare
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.training.config import OptimizerConfig
from bleugrad.lab.training.optimizer import Schedule
from bleugrad.lab.training.processes import SingleProcess
from bleugrad.lab.training.run import train_run
from bleugrad.lab.training.trainer import Trainer, TrainingSetup
from bleugrad.lab.training.vocabularies import Vocabularies
from tests.lab.training.corpora import small_config, write_corpus


def make_trainer(corpus, **more):
    from bleugrad.lab.data.encoding import build_vocabularies, encode_split

    config = small_config(corpus, model__dropout=0.0, **more)
    text = prepare(config.data)
    vocabularies = Vocabularies(*build_vocabularies(text, config.data))
    torch.manual_seed(0)
    model = build_model(config.model, len(vocabularies.source), len(vocabularies.target))
    train = encode_split(text.train, vocabularies.source, vocabularies.target)
    return Trainer(TrainingSetup(config, model, vocabularies, train, text.valid), SingleProcess("cpu"), None)


@pytest.mark.parametrize("more", [{}, {"objective__name": "exact", "objective__level": "sentence"}])
def test_batches_of_a_window_make_the_step_of_one_batch(corpus, more):
    whole, parts = make_trainer(corpus, **more), make_trainer(corpus, **more)
    loss, norm = whole.take_step([[0, 1, 2, 3, 4]])
    loss_of_parts, norm_of_parts = parts.take_step([[0, 1, 2], [3, 4]])
    assert loss_of_parts == pytest.approx(loss, rel=1e-5)
    assert norm_of_parts == pytest.approx(norm, rel=1e-5)
    for one, other in zip(whole.parameters, parts.parameters, strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=2e-5)


def test_batches_of_one_pass_models_are_sorted_by_source_first(corpus, monkeypatch):
    found = []

    def planned(*arguments, by_source):
        found.append(by_source)
        return BatchPlan(*arguments, by_source=by_source)

    monkeypatch.setattr("bleugrad.lab.training.trainer.BatchPlan", planned)
    for kind in ("lstm", "ctc"):
        make_trainer(corpus, model__kind=kind, model__hidden=8, model__heads=2)
    assert found == [False, True]


def test_gradients_are_clipped(corpus):
    free, clipped = make_trainer(corpus, optimizer__clip=0), make_trainer(corpus, optimizer__clip=1e-3)
    assert free.take_step([[0, 1]])[1] == pytest.approx(clipped.take_step([[0, 1]])[1]), "the norm before clipping"
    ratios = [
        other.grad if other.grad is not None else clipped.optimizer.state[other]["exp_avg"]
        for other in clipped.parameters
    ]
    norm = torch.stack([moment.norm() / 0.1 for moment in ratios]).norm()
    assert norm.item() == pytest.approx(1e-3, rel=1e-3)


def test_every_sentence_is_seen_once_an_epoch(corpus):
    trainer = make_trainer(corpus, optimizer__accumulation=2)
    for epoch in (1, 2):
        windows = trainer.windows(epoch)
        assert sorted(index for window in windows for batch in window for index in batch) == list(range(40))
        assert len(windows) == 3
    assert trainer.windows(1) != trainer.windows(2)


def test_the_share_of_own_tokens_rises_on_a_line(corpus):
    trainer = make_trainer(corpus, optimizer__epochs=5, objective__own_first=0.1, objective__own_last=0.5)
    found, step = [], trainer.take_step
    trainer.take_step = lambda window: (found.append(trainer.inner_objective.own_probability), step(window))[1]
    trainer.train()
    assert sorted(set(found)) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert found == sorted(found)


def test_a_soft_beam_becomes_sharper_by_a_factor_per_epoch(corpus):
    more = {"objective__name": "soft_beam", "objective__candidates": 2}
    trainer = make_trainer(corpus, optimizer__epochs=3, objective__tau_first=0.5, objective__tau_last=8.0, **more)
    found, step = [], trainer.take_step
    trainer.take_step = lambda window: (found.append(trainer.inner_objective.tau), step(window))[1]
    trainer.train()
    assert sorted(set(found)) == pytest.approx([0.5, 2.0, 8.0])
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("decay", "rates"),
    [
        ("none", [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("step", [1.0, 0.5, 0.5, 0.25, 0.25, 0.125]),
        ("plateau", [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]),
    ],
)
def test_learning_rates_follow_bleu(decay, rates):
    config = OptimizerConfig(learning_rate=1.0, decay=decay, patience=2, early_stopping=4)
    schedule, found, over = Schedule(1.0), [], []
    for epoch, bleu in enumerate([0.3, 0.2, 0.1, 0.2, 0.3, 0.4], start=1):
        schedule.observe(bleu, epoch, config)
        found.append(schedule.learning_rate)
        over.append(schedule.over(config))
    assert found == rates
    assert over == [False, False, False, False, True, False]
    assert (schedule.best, schedule.best_epoch) == (0.4, 6)


@pytest.mark.parametrize(("decay", "rates"), [("step", [1.0, 0.5, 0.25]), ("plateau", [1.0, 0.5, 0.5])])
def test_the_score_before_the_first_epoch_lowers_no_learning_rate(decay, rates):
    config = OptimizerConfig(learning_rate=1.0, decay=decay, patience=1)
    schedule, found = Schedule(1.0), []
    for epoch, bleu in enumerate([0.3, 0.2, 0.4]):
        schedule.observe(bleu, epoch, config)
        found.append(schedule.learning_rate)
    assert found == rates


def test_a_model_learns(tmp_path):
    corpus = write_corpus(tmp_path, train=300)
    sizes = {"model__hidden": 32, "model__embedding": 16, "model__dropout": 0.0}
    optimizer = {"optimizer__epochs": 6, "optimizer__learning_rate": 0.02, "optimizer__decay": "none"}
    history = train_run(small_config(corpus, **sizes, **optimizer), tmp_path / "run")["history"]
    assert history[-1]["train_loss"] < 0.8 < history[0]["train_loss"]
    assert max(scores["bleu"] for scores in history) > 0.3


def test_bfloat16_trains_and_keeps_float32_weights(corpus, tmp_path):
    summary = train_run(small_config(corpus, optimizer__precision="bf16"), tmp_path)
    full = train_run(small_config(corpus), tmp_path / "full")
    assert summary["history"][-1]["train_loss"] == pytest.approx(full["history"][-1]["train_loss"], rel=0.02)
    assert summary["history"][-1]["train_loss"] != full["history"][-1]["train_loss"]
