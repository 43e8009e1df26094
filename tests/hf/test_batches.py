"""The collator, completions, metrics, rewards and schedules on their own."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
import torch

pytest.importorskip("transformers")

from bleugrad.hf import BLEUCollator, BLEUMetrics, BLEUReward, BLEUSchedule, bleu_reward, encode_completion
from tests.hf.models import BEGIN, END, GERMAN, LINES, PAD, SEQ2SEQ, encode, features, make_model, make_tokenizer


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_decoder_inputs_are_those_the_model_makes_of_the_labels(name):
    """NLLB has no public function for it, so that the usual collator leaves them out."""
    model, seen = make_model(name), []
    batch = BLEUCollator(make_tokenizer(), model)(features(after=[GERMAN] if name == "mBART" else []))
    decoder = model.get_decoder()
    decoder.register_forward_pre_hook(lambda m, args, kwargs: seen.append(kwargs["input_ids"]), with_kwargs=True)
    inputs = batch.pop("decoder_input_ids")
    model(**batch)
    assert torch.equal(inputs, seen[0])
    valid = batch["labels"][:, :-1] != -100
    assert torch.equal(inputs[:, 1:][valid], batch["labels"][:, :-1][valid])


def test_labels_are_padded_by_minus_100_and_other_columns_left_out():
    rows = [row | {"text": "not a tensor"} for row in features()]
    batch = BLEUCollator(make_tokenizer(), make_model("T5"))(rows)
    assert set(batch) == {"input_ids", "attention_mask", "labels", "decoder_input_ids"}
    for row, labels, inputs in zip(rows, batch["labels"].tolist(), batch["input_ids"].tolist(), strict=True):
        assert labels == row["labels"] + [-100] * (len(labels) - len(row["labels"]))
        assert inputs == row["input_ids"] + [PAD] * (len(inputs) - len(row["input_ids"]))


def test_references_are_padded():
    rows = features()[:2]
    rows[0]["references"], rows[1]["references"] = [[7, 8, 9], [7]], [[8]]
    batch = BLEUCollator(make_tokenizer(), make_model("T5"))(rows)
    assert batch["references"].tolist() == [[[7, 8, 9], [7, -100, -100]], [[8, -100, -100], [-100] * 3]]


@pytest.mark.parametrize("references", ["a text", ["a text", "another"], [7, 8, 9]])
def test_references_that_are_not_lists_of_token_ids_are_an_error(references):
    rows = features()[:2]
    rows[0]["references"], rows[1]["references"] = [[7, 8, 9]], references
    with pytest.raises(
        TypeError, match=r"references of feature 1 begin with .*; expected a list of lists of token ids"
    ):
        BLEUCollator(make_tokenizer(), make_model("T5"))(rows)


def test_features_without_labels_are_an_error():
    rows = [*features()[:1], {"input_ids": [7], "attention_mask": [1]}]
    with pytest.raises(ValueError, match="feature 1 has no labels"):
        BLEUCollator(make_tokenizer(), make_model("T5"))(rows)


def test_decoder_inputs_need_a_start_token():
    model = make_model("NLLB")
    model.config.decoder_start_token_id = None
    with pytest.raises(ValueError, match="decoder_start_token_id=None"):
        BLEUCollator(make_tokenizer(), model)(features()[:1])


def test_completions_end_and_their_prompt_is_masked():
    found = encode_completion(make_tokenizer(), "the cat", "sat")
    prompt = encode("the cat")[:-1]
    assert found["input_ids"] == prompt + encode("sat")
    assert found["labels"] == [-100] * len(prompt) + encode("sat")
    assert found["attention_mask"] == [1] * len(found["labels"])


def test_the_end_that_a_tokenizer_adds_to_a_prompt_is_taken_off():
    def adds_end(text, add_special_tokens=True):
        return {"input_ids": [5, 6, END] if add_special_tokens else [5, 6]}

    adds_end.eos_token_id = END
    assert encode_completion(adds_end, "a", "b")["input_ids"] == [5, 6, 5, 6, END]


def prediction(outputs, labels):
    width = max(map(len, [*outputs, *labels])) + 1
    pad = [[*row, *[-100] * (width - len(row))] for row in outputs]
    return SimpleNamespace(
        predictions=np.array(pad), label_ids=np.array([r + [-100] * (width - len(r)) for r in labels])
    )


def test_metrics_are_those_of_sacrebleu_on_the_text():
    texts, outputs = LINES[:3], ["the cat sat on a mat", "a dog ran in the park", "low lowest"]
    metrics = BLEUMetrics(make_tokenizer(), size=3)
    ids = [[BEGIN, *encode(line)] for line in outputs]
    found = metrics(prediction(ids, [encode(line) for line in texts]))
    scorer = sacrebleu.BLEU()
    assert found["bleu"] == pytest.approx(scorer.corpus_score(outputs, [texts]).score)
    assert metrics.signature == str(scorer.get_signature())
    assert found["length_ratio"] == pytest.approx(14 / 16)


def test_metrics_leave_repeated_rows_out():
    metrics = BLEUMetrics(make_tokenizer(), size=2)
    good, bad = [encode(line) for line in LINES[:2]], [encode(line) for line in LINES[2:4]]
    assert metrics(prediction([*good, *bad], [*good, *good]))["bleu"] == pytest.approx(100)
    with pytest.raises(ValueError, match="expected at least 2"):
        metrics(prediction(good[:1], good[:1]))


def test_metrics_take_several_references():
    references = [["a b c d e", "the dog sat"], ["a dog ran in the park"]]
    metrics = BLEUMetrics(make_tokenizer(), size=2, references=references)
    outputs = ["the dog sat", "a dog ran in the park"]
    found = metrics(prediction([encode(line) for line in outputs], [[END], [END]]))
    expected = sacrebleu.BLEU().corpus_score(outputs, [[r[0] for r in references], ["the dog sat", None]]).score
    assert found["bleu"] == pytest.approx(expected) == pytest.approx(100)
    with pytest.raises(ValueError, match="expected 3, the size"):
        BLEUMetrics(make_tokenizer(), size=3, references=references)


def test_metrics_of_logits_are_an_error():
    logits = SimpleNamespace(predictions=np.zeros((2, 3, 9)), label_ids=np.zeros((2, 3), dtype=int))
    with pytest.raises(ValueError, match="predict_with_generate=True"):
        BLEUMetrics(make_tokenizer(), size=2)(logits)


def test_rewards_are_sentence_bleu():
    texts = ["the cat sat on the mat", "the cat", "nothing alike here"]
    references = ["the cat sat on the mat", "the cat sat on the mat", "the cat sat on the mat"]
    found = bleu_reward(["p"] * 3, texts, reference=references, other=[1, 2, 3])
    expected = [sacrebleu.sentence_bleu(text, [ref]).score / 100 for text, ref in zip(texts, references, strict=True)]
    assert found == pytest.approx(expected)
    assert found[0] == 1
    assert bleu_reward.__name__ == "bleu_reward"


def test_rewards_of_conversations_and_of_several_references():
    chat = [[{"role": "assistant", "content": "the dog sat on it"}]]
    reward = BLEUReward(column="targets", tokenize="none")
    assert reward(["p"], chat, targets=[["a b c d", "the dog sat on it"]]) == [1.0]
    with pytest.raises(ValueError, match="no column 'targets' of references; found reference"):
        reward(["p"], chat, reference=["x"])


@pytest.mark.parametrize("options", [{}, {"after_steps": 1, "after_epochs": 1}])
def test_a_schedule_has_exactly_one_beginning(options):
    with pytest.raises(ValueError, match="exactly one"):
        BLEUSchedule(None, **options)


def run_python(code):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_a_missing_library_is_named_with_its_command():
    code = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name == MISSING else find(name, *rest)
import bleugrad.hf
assert "torch" not in sys.modules and "transformers" not in sys.modules
getattr(bleugrad.hf, NAME)
"""
    for name, missing, extra in (("BLEULoss", "transformers", "hf"), ("BLEUSFTTrainer", "trl", "trl")):
        done = run_python(f"NAME, MISSING = {name!r}, {missing!r}\n{code}")
        wanted = f"bleugrad.hf.{name} needs {missing}, which is not installed; install it with: "
        assert f"{wanted}pip install 'bleugrad[{extra}]'" in done.stderr


def test_names():
    import bleugrad.hf

    assert {"BLEULoss", "BLEUSFTTrainer"} <= set(dir(bleugrad.hf))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = bleugrad.hf.no_such_name
