"""The callback that adds the metrics to an evaluation, in one process and in two."""

import pytest
import sacrebleu
import torch

pytest.importorskip("accelerate")
pytest.importorskip("torchmetrics")

import bleugrad
from bleugrad.hf import BLEUCollator, BLEUEvaluation
from tests.hf.models import (
    END,
    LINES,
    PAD,
    UNKNOWN,
    encode_pairs,
    features,
    make_model,
    make_tokenizer,
    with_own_labels,
)
from tests.hf.processes import EVALUATED, evaluation_rows, evaluation_values
from tests.processes import run_processes

pytestmark = pytest.mark.slow  # the trainer takes ten seconds to import
LIMIT = 12  # tokens that a model generates


@pytest.fixture(scope="module")
def trainers():
    from tests.hf import trainers

    return trainers


def make(trainers, folder, name, rows, callback, given=None, **options):
    options = {"per_device_eval_batch_size": 3, "generation_max_length": LIMIT} | options
    given = {"eval_dataset": rows, "callbacks": [callback]} | (given or {})
    return trainers.make_trainer(folder, name, trainer=trainers.Seq2SeqTrainer, given=given, **options)


@torch.no_grad()
def expected_values(model, rows, references=None, causal=False):
    """Means over the sentences of one batch, each by the function."""
    batch = BLEUCollator(make_tokenizer(), model)(rows)
    logits, labels = model.eval()(**batch).logits, batch["labels"]
    if causal:
        logits, labels = logits[:, :-1], labels[:, 1:]
    result = bleugrad.expected_bleu(
        logits, labels if references is None else references, mask=labels != -100, eos_id=END, level="sentence"
    )
    return {
        "eval_expected_bleu": result.value.mean().item(),
        "eval_expected_bleu_low": result.lower.mean().item(),
        "eval_expected_bleu_high": result.upper.mean().item(),
        "eval_expected_length_ratio": (result.hypothesis_lengths.sum() / result.reference_lengths.sum()).item(),
    }


def token_bleu(model, rows):
    """sacreBLEU of the ids that the model generates for one sentence after another, written as words."""
    lines = []
    for row in rows:
        made = model.generate(torch.tensor([row["input_ids"]]), max_length=LIMIT, num_beams=1)[0, 1:].tolist()
        made = made[: made.index(END)] if END in made else made
        lines.append(" ".join(str(one) for one in made if one > END + 1 or one == UNKNOWN))
    references = [" ".join(str(one) for one in row["labels"] if one not in (END, PAD)) for row in rows]
    return sacrebleu.corpus_bleu(lines, [references], tokenize="none", smooth_method="none", force=True).score / 100


@pytest.mark.parametrize("name", ["T5", "BART"])
def test_an_evaluation_has_the_values_of_the_functions(trainers, tmp_path, name):
    reported = []

    class Reporter(trainers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            reported.append(dict(logs))

    model, rows = make_model(name), features()
    rows = with_own_labels(model, rows)
    callback = BLEUEvaluation(make_tokenizer(), words=False)
    trainer = make(trainers, tmp_path, model, rows, callback, {"callbacks": [Reporter(), callback]})
    trainer.add_callback(trainer.pop_callback(Reporter))  # after the callback
    model.train()
    found = trainer.evaluate()
    assert model.training is False  # as the trainer leaves it
    wanted = expected_values(model, rows) | {"eval_token_bleu": token_bleu(model, rows)}
    assert wanted["eval_token_bleu"] > 0.01
    for entry in (found, trainer.state.log_history[-1], reported[-1]):
        assert {key: entry[key] for key in wanted} == pytest.approx(wanted, abs=1e-9)


def test_several_references_replace_the_labels(trainers, tmp_path):
    rows = [row | {"references": [row["labels"], row["labels"][2:]]} for row in features()]
    found = make(trainers, tmp_path, "T5", rows, BLEUEvaluation(make_tokenizer(), words=False)).evaluate()
    wanted = expected_values(make_model("T5"), rows, [[one[:-1] for one in row["references"]] for row in rows])
    assert {key: found[key] for key in wanted} == pytest.approx(wanted, abs=1e-9)


def test_a_causal_model_has_expected_bleu_alone(trainers, tmp_path):
    rows = encode_pairs()
    given = {"eval_dataset": rows, "callbacks": [BLEUEvaluation(make_tokenizer(), words=False)]}
    found = trainers.make_trainer(tmp_path, "GPT-2", given=given, per_device_eval_batch_size=3).evaluate()
    wanted = expected_values(make_model("GPT-2"), rows, causal=True)
    assert {key: found[key] for key in wanted} == pytest.approx(wanted, abs=1e-9)
    assert "eval_token_bleu" not in found
    given["callbacks"] = [BLEUEvaluation(make_tokenizer(), generate=True)]
    trainer = trainers.make_trainer(tmp_path, "GPT-2", given=given, per_device_eval_batch_size=3)
    with pytest.raises(ValueError, match="generate is True, but the model is causal"):
        trainer.evaluate()


def test_the_best_checkpoint_may_be_that_of_expected_bleu(trainers, tmp_path):
    options = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "best", "max_steps": 2}
    callback = BLEUEvaluation(make_tokenizer(), generate=False)
    more = {"metric_for_best_model": "expected_bleu", "greater_is_better": True, "learning_rate": 0.1}
    trainer = make(trainers, tmp_path, "T5", features(), callback, {"train_dataset": features()}, **options, **more)
    trainer.train()
    entries = [entry for entry in trainer.state.log_history if "eval_expected_bleu" in entry]
    assert trainer.state.best_metric == max(entry["eval_expected_bleu"] for entry in entries)
    assert len(entries) == 2
    assert not any("eval_token_bleu" in entry for entry in entries)
    assert all("eval_loss" in entry for entry in entries)  # nothing is added to entries of the training loss


def test_data_without_a_length_is_an_error(trainers, tmp_path):
    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            yield from features()

    trainer = make(trainers, tmp_path, "T5", Endless(), BLEUEvaluation(make_tokenizer()))
    with pytest.raises(TypeError, match="eval_dataset is a Endless without a length"):
        trainer.evaluate()


def test_two_processes_compute_what_one_does(tmp_path):
    """19 sentences in two batches of 9: the second process has nothing in the last one."""
    alone = evaluation_values(None, tmp_path)
    assert alone["eval_token_bleu"] > 0.01
    assert len(evaluation_rows()) == EVALUATED == len(LINES) * 2 + 3
    for found in run_processes(evaluation_values, tmp_path, tmp_path):
        assert found == pytest.approx(alone, abs=1e-12)
