"""Trainers in one process: a step over several micro-batches is the step of one big batch."""

import pytest
import torch

pytest.importorskip("accelerate")

import bleugrad
from bleugrad.hf import BLEUCollator, BLEULoss, BLEUMetrics, BLEUMonitor, BLEUSchedule, encode_completion
from tests.hf.models import CAUSAL, END, LINES, PLAIN, SEQ2SEQ, features, gradients, make_model, make_tokenizer
from tests.hf.oracle import step_loss

pytestmark = pytest.mark.slow  # the trainer takes ten seconds to import


@pytest.fixture(scope="module")
def trainers():
    from tests.hf import trainers

    return trainers


def expected(name, rows, **options):
    model = make_model(name)
    value = step_loss(model, rows, eos_id=END, **options)
    value.backward()
    return value.detach(), gradients(model)


ACCUMULATED = {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 3}  # 3 + 3 + 2 sentences


@pytest.mark.parametrize("name", [*SEQ2SEQ, *CAUSAL])
def test_accumulated_micro_batches_are_one_big_batch(trainers, tmp_path, name):
    rows = features() if name in SEQ2SEQ else [encode_completion(make_tokenizer(), a, a) for a in LINES]
    trainer = trainers.Seq2SeqTrainer if name in SEQ2SEQ else trainers.Trainer
    found = trainers.one_step(tmp_path, name, rows, trainer=trainer, loss_options={"bleu_weight": 0.8}, **ACCUMULATED)
    trainers.assert_step(found, expected(name, rows, blend=0.8))


def test_weights_of_bleu_do_not_depend_on_micro_batches(trainers, tmp_path):
    found = trainers.one_step(tmp_path, "T5", features(), loss_options={"adaptive": True}, **ACCUMULATED)
    trainers.assert_step(found, expected("T5", features(), adaptive=True))


@pytest.mark.parametrize("fused", [False, True])
def test_the_plain_mean_over_sentences(trainers, tmp_path, fused):
    options = {"bleu_weight": 0.8, "fused": fused}
    found = trainers.one_step(
        tmp_path, "T5", features(), trainer=trainers.SentenceSeq2SeqTrainer, loss_options=options, **ACCUMULATED
    )
    trainers.assert_step(found, expected("T5", features(), weighting="sentences", blend=0.8))


def test_the_plain_mean_over_sentences_of_a_causal_model(trainers, tmp_path):
    rows = [encode_completion(make_tokenizer("left"), a, a) for a in LINES]
    found = trainers.one_step(
        tmp_path,
        "GPT-2",
        rows,
        tokenizer=make_tokenizer("left"),
        trainer=trainers.SentenceTrainer,
        **ACCUMULATED,
    )
    trainers.assert_step(found, expected("GPT-2", rows, weighting="sentences"))


def test_accumulated_corpora_are_weighted_by_their_labels(trainers, tmp_path):
    """Statistics cannot be pooled over passes that do not exist at the same time: what is documented instead."""
    found = trainers.one_step(tmp_path, "T5", features(), loss_options={"level": "corpus"}, **ACCUMULATED)
    model, rows, total = make_model("T5"), features(), 0.0
    labels = sum(len(row["labels"]) for row in rows)
    for first in range(0, len(rows), 3):
        batch = BLEUCollator(make_tokenizer(), model)(rows[first : first + 3])
        value = bleugrad.expected_bleu(
            model(**batch).logits, batch["labels"], eos_id=END, level="corpus", mask=batch["labels"] != -100
        ).value
        total = total + (1 - value) * (batch["labels"] != -100).sum() / labels
    total.backward()
    trainers.assert_step(found, (total.detach(), gradients(model)))


def test_one_big_corpus(trainers, tmp_path):
    found = trainers.one_step(
        tmp_path, "T5", features(), loss_options={"level": "corpus"}, per_device_train_batch_size=8
    )
    model = make_model("T5")
    batch = BLEUCollator(make_tokenizer(), model)(features())
    loss = bleugrad.ExpectedBLEULoss(eos_id=END)(model(**batch).logits, batch["labels"])
    loss.backward()
    trainers.assert_step(found, (loss.detach(), gradients(model)))


def test_bart_with_a_plain_collator_is_an_error(trainers, tmp_path):
    """The labels are popped before the forward pass, and BART then decodes from the source."""
    from transformers import DataCollatorForSeq2Seq

    same = [row | {"labels": row["input_ids"]} for row in features()]
    given = {"train_dataset": same, "data_collator": DataCollatorForSeq2Seq(make_tokenizer())}
    trainer = trainers.make_trainer(tmp_path, "BART", trainer=trainers.Seq2SeqTrainer, given=given)
    with pytest.raises(ValueError, match="BLEUCollator"):
        trainer.train()


def test_bfloat16_training_is_close_to_single_precision(trainers, tmp_path):
    losses = {}
    for bf16 in (False, True):
        trainer = trainers.make_trainer(
            tmp_path,
            make_model("T5", torch.float32),
            given={"train_dataset": features()},
            bf16=bf16,
            per_device_train_batch_size=8,
        )
        losses[bf16] = trainer.train().training_loss
    assert losses[True] != losses[False]
    assert abs(losses[True] - losses[False]) < 5e-3


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [
        ({"after_steps": 2}, [0, 0, 1, 1, 1, 1]),
        ({"after_epochs": 1.5}, [0, 0, 0, 1, 1, 1]),
        ({"after_steps": 1, "over": 4}, [0, 0, 0.25, 0.5, 0.75, 1]),
        ({"after_epochs": 1, "over": 1}, [0, 0, 0, 0.5, 1, 1]),
    ],
)
def test_the_schedule_sets_the_share_of_each_step(trainers, tmp_path, schedule, shares):
    model, seen = make_model("T5"), []

    class Recorded(BLEULoss):
        def __call__(self, *args, **options):
            seen.append(self.bleu_weight)
            return super().__call__(*args, **options)

    loss = Recorded(model, make_tokenizer(), bleu_weight=0.123)
    given = {"train_dataset": features(), "callbacks": [BLEUSchedule(loss, **schedule)]}
    sizes = {"max_steps": 6, "per_device_train_batch_size": 4}  # two steps per epoch
    trainer = trainers.make_trainer(tmp_path, model, loss=loss, given=given, **sizes)
    trainer.train()
    assert seen == pytest.approx(shares)


def test_evaluation_generates_scores_and_reports_the_cross_entropy_of_the_model(trainers, tmp_path):
    metrics = BLEUMetrics(make_tokenizer(), size=len(LINES), tokenize="none")
    trainer = trainers.evaluating_trainer(tmp_path, features(), metrics)
    found = trainer.evaluate()
    batch = BLEUCollator(make_tokenizer(), trainer.model)(features())
    assert found["eval_loss"] == pytest.approx(trainer.model(**batch).loss.item())
    assert 0 <= found["eval_bleu"] <= 100
    assert "tok:none" in metrics.signature


def test_evaluation_without_generating_reports_the_loss_itself(trainers, tmp_path):
    options = {"per_device_eval_batch_size": 8, "prediction_loss_only": True}
    model = make_model("T5")
    loss = BLEULoss(model, make_tokenizer(), **PLAIN)
    trainer = trainers.make_trainer(tmp_path, model, loss=loss, given={"eval_dataset": features()}, **options)
    wanted = expected("T5", features())[0]
    assert trainer.evaluate()["eval_loss"] == pytest.approx(wanted.item())


@pytest.mark.parametrize("fused", [False, True])
def test_the_label_smoothing_of_the_loss_is_that_of_cross_entropy(trainers, tmp_path, fused):
    options = {"bleu_weight": 0.0, "fused": fused, "label_smoothing": 0.2}
    steps, loss = trainers.one_step(tmp_path, "T5", features(), loss_options=options, **ACCUMULATED)
    model = make_model("T5")
    batch = BLEUCollator(make_tokenizer(), model)(features())
    logits, labels = model(**batch).logits.flatten(0, 1), batch["labels"].flatten()
    wanted = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=0.2)
    wanted.backward()
    trainers.assert_step((steps, loss), (wanted.detach(), gradients(model)))


CALLBACKS = {
    "monitor": BLEUMonitor,
    "schedule": lambda loss: BLEUSchedule(loss, after_steps=0),
}


@pytest.mark.parametrize("kind", CALLBACKS)
@pytest.mark.parametrize("check", [False, True])
def test_settings_that_a_trainer_ignores_or_drops_are_warned_of_by_the_callbacks(trainers, tmp_path, kind, check):
    model, rows = make_model("T5"), [row | {"references": [row["labels"]]} for row in features()]
    loss = BLEULoss(model, make_tokenizer(), check=check, level="corpus")
    given = {"train_dataset": rows, "callbacks": [CALLBACKS[kind](loss)]}
    options = {"label_smoothing_factor": 0.1, "remove_unused_columns": True, "gradient_accumulation_steps": 2}
    trainer = trainers.make_trainer(tmp_path, model, loss=loss, given=given, **options)
    if check:
        with pytest.raises(ValueError, match="trainers do not pass it to compute_loss_func"):
            trainer.train()
        return
    with pytest.warns(UserWarning, match="set |corpus of") as found:
        trainer.train()
    assert [str(one.message).split(";")[-1] for one in found] == [
        " set it to 0 and use BLEULoss(label_smoothing=0.1)",
        " use a larger batch with less accumulation, or level='sentence'",
        " set remove_unused_columns=False",
    ]


def test_references_that_a_trainer_drops_from_a_data_set_are_missed_by_the_collator(trainers, tmp_path):
    """No callback sees the columns of a ``datasets.Dataset`` that the trainer removes."""
    datasets = pytest.importorskip("datasets")
    model, rows = make_model("T5"), [row | {"references": [row["labels"]]} for row in features()]
    collator = BLEUCollator(make_tokenizer(), model, references=True)
    for removed in (False, True):
        given = {"train_dataset": datasets.Dataset.from_list(rows), "data_collator": collator}
        trainer = trainers.make_trainer(tmp_path, model, given=given, remove_unused_columns=removed)
        if removed:
            with pytest.raises(ValueError, match=r"a feature has no references.*remove_unused_columns=False"):
                trainer.train()
        else:
            trainer.train()


@pytest.mark.parametrize("kind", CALLBACKS)
def test_settings_that_fit_are_not_warned_of(trainers, tmp_path, kind):
    model, rows = make_model("T5"), [row | {"references": [row["labels"]]} for row in features()]
    loss = BLEULoss(model, make_tokenizer(), check=True, label_smoothing=0.1)
    given = {"train_dataset": rows, "callbacks": [CALLBACKS[kind](loss)]}
    trainers.make_trainer(tmp_path, model, loss=loss, given=given, label_smoothing_factor=0.1).train()


@pytest.mark.parametrize("fused", [False, True])
def test_the_log_has_bleu_cross_entropy_and_length(trainers, tmp_path, fused):
    """Means over the micro-batches of the step, from the definition."""
    model, rows, reported = make_model("T5"), features(), []
    with torch.no_grad():
        batch = BLEUCollator(make_tokenizer(), model)(rows)
        logits, labels = model(**batch).logits, batch["labels"]
        whole = bleugrad.expected_bleu(logits, labels, eos_id=END, mask=labels != -100, level="sentence")
        nll = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    counts = (labels != -100).sum(1)
    wanted = {
        "expected_bleu": (whole.value * counts).sum() / counts.sum(),
        "expected_bleu_low": (whole.lower * counts).sum() / counts.sum(),
        "expected_bleu_high": (whole.upper * counts).sum() / counts.sum(),
        "cross_entropy": nll,
        "length_ratio": whole.hypothesis_lengths.sum() / (counts - 1).sum(),
    }

    class Reporter(trainers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            reported.append(dict(logs))

    loss = BLEULoss(model, make_tokenizer(), fused=fused, **PLAIN)
    given = {"train_dataset": rows, "callbacks": [Reporter(), BLEUMonitor(loss, stop_outside=(0, 2))]}
    trainer = trainers.make_trainer(tmp_path, model, loss=loss, given=given, **ACCUMULATED)
    trainer.add_callback(trainer.pop_callback(Reporter))  # after the monitor
    trainer.train()
    for entry in (trainer.state.log_history[0], reported[0]):
        assert {name: entry[name] for name in wanted} == pytest.approx(
            {k: float(v) for k, v in wanted.items()}, abs=1e-7
        )


def test_the_log_of_a_loss_without_bleu(trainers, tmp_path):
    model = make_model("BART")
    loss = BLEULoss(model, make_tokenizer(), bleu_weight=0.0)
    given = {"train_dataset": features(), "callbacks": [BLEUMonitor(loss)]}
    trainer = trainers.make_trainer(tmp_path, model, loss=loss, given=given)
    trainer.train()
    logged = trainer.state.log_history[0]
    assert logged["cross_entropy"] == pytest.approx(logged["loss"], abs=1e-4)
    assert 0 < logged["length_ratio"] < 2  # with three positions after the end
    assert "expected_bleu" not in logged


@pytest.mark.parametrize(("limits", "steps"), [((0.0, 9.0), 3), ((2.0, 9.0), 1), (None, 3)])
def test_training_stops_if_the_length_leaves_its_range(trainers, tmp_path, limits, steps):
    model = make_model("BART")
    loss = BLEULoss(model, make_tokenizer())
    given = {"train_dataset": features(), "callbacks": [BLEUMonitor(loss, stop_outside=limits)]}
    trainer = trainers.make_trainer(tmp_path, model, loss=loss, given=given, max_steps=3)
    if steps == 1:
        with pytest.warns(UserWarning, match=r"length_ratio is 1\.\d\d, outside of 2.0 to 9.0: training stops"):
            trainer.train()
    else:
        trainer.train()
    assert trainer.state.global_step == steps


def test_a_range_of_lengths_has_two_ends():
    with pytest.raises(ValueError, match=r"stop_outside is .* expected two numbers"):
        BLEUMonitor(None, stop_outside=(1.3, 0.7))
