"""The options of the public classes and functions have an effect."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("transformers")

import bleugrad.hf
from bleugrad import GLEU
from bleugrad.hf import BLEUCollator, BLEULoss, BLEUMetrics, BLEUReward
from tests.hf.models import END, features, make_model, make_tokenizer
from tests.metrics.options import check_options

TRIED = {
    "BLEUCollator",
    "BLEULoss",
    "BLEUMetrics",
    "BLEUMonitor",
    "BLEUReward",
    "BLEUSchedule",
    "ScoreReward",
}
NOT_TRIED = {
    "BLEUSFTTrainer": "its options are those of TRL; tests/hf/test_trl.py has those that it refuses",
    "SentenceMean": "a mixin without options",
    "TokenGRPOTrainer": "its options are those of TRL; tests/hf/test_scores.py has the rewards that it refuses",
    "bleu_reward": "an instance of BLEUReward",
    "encode_completion": "it has no options",
}


def test_every_name_is_tried_or_has_a_reason():
    assert set(bleugrad.hf.__all__) == TRIED | set(NOT_TRIED)


def outcome(call):
    """The result of a call, or the name of its error or warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            return call()
        except (ValueError, UserWarning) as error:
            return type(error).__name__


def observed_loss(rows=None, **options):
    """Value and width of the rows of a batch, and what happens for wrong decoder inputs and padded labels."""
    model, rows = make_model("T5"), rows or features(before=[END + 3])
    batch = BLEUCollator(make_tokenizer(), model)(rows)
    labels = batch.pop("labels")

    def step(labels=labels, **changed):
        loss = BLEULoss(model, make_tokenizer(), **options)
        outputs = model(**batch | changed)
        return outputs.logits.shape[-1], loss(outputs, labels).item()

    wrong = {"decoder_input_ids": batch["decoder_input_ids"].flip(1)}
    return step(), outcome(lambda: step(**wrong)), outcome(lambda: step(labels.clamp(min=0)))


def test_the_loss():
    changes = {
        "level": "sentence",
        "words": False,
        "eos": "token",
        "end_positions": 1,
        "sharpness": 1.0,
        "special_tokens": "include",
        "bleu_weight": 0.5,
        "adaptive": False,
        "label_smoothing": 0.1,
        "score": GLEU(),
        "fused": True,
        "method": "bound",
        "check_decoder_inputs": False,
        "check": True,
    }
    changes = {name: ({}, value) for name, value in changes.items()}
    check_options(BLEULoss, observed_loss, changes, required=("model", "tokenizer"))
    with pytest.raises(ValueError, match="end_positions is 3 without eos_id"):
        observed_loss(eos="token", end_positions=3)


def test_the_collator():
    def observe(**options):
        batch = BLEUCollator(make_tokenizer(), make_model("T5"), **options)(features())
        return {name: tuple(value.shape) for name, value in batch.items()}

    check_options(BLEUCollator, observe, {"references": ({}, True)}, required=("tokenizer", "model"))


def test_metrics_of_generated_text():
    lines = ["The cat sat on the mat, slow", "a dog ran in the park"]
    tokenizer = SimpleNamespace(pad_token_id=0, batch_decode=lambda ids, **_: [lines[int(row[0])] for row in ids])

    def observe(**options):
        found = SimpleNamespace(predictions=np.array([[0], [1]]), label_ids=np.array([[1], [1]]))
        return BLEUMetrics(tokenizer, **{"size": 2} | options)(found)

    same = {"references": [["the cat sat on the mat , slow"], ["a dog ran in the park"]]}
    changes = {
        "references": ({}, same["references"]),
        "tokenize": (same, "none"),
    }
    check_options(BLEUMetrics, observe, changes, required=("tokenizer", "size"))
    assert observe(size=1) != observe()


def test_rewards():
    def observe(**options):
        columns = {"reference": ["a cat, sat there"], "other": ["the cat sat"]}
        return BLEUReward(**options)(["p"], ["the cat , sat on the mat"], **columns)

    changes = {"column": "other", "tokenize": "none"}
    check_options(BLEUReward, observe, {name: ({}, value) for name, value in changes.items()})


@pytest.mark.slow  # the trainer takes ten seconds to import
def test_callbacks():
    pytest.importorskip("accelerate")
    from bleugrad.hf import BLEUMonitor, BLEUSchedule

    loss, state = SimpleNamespace(measurements=lambda: {"length_ratio": 0.4}), SimpleNamespace(log_history=[{}])

    def shares(**options):
        schedule = BLEUSchedule(loss, **options)
        return [schedule.at(step, step / 10) for step in range(40)]

    changes = {
        "after_steps": ({"after_steps": 1}, 2),
        "after_epochs": ({"after_epochs": 1}, 2),
        "over": ({"after_steps": 1}, 4),
    }
    check_options(BLEUSchedule, shares, changes, required=("loss",))

    def stops(**options):
        control = SimpleNamespace(should_training_stop=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            BLEUMonitor(loss, **options).on_log(None, state, control, {"loss": 1.0})
        return control.should_training_stop

    check_options(BLEUMonitor, stops, {"stop_outside": ({}, (0.5, 2.0))}, required=("loss",))
