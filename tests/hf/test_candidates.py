"""Candidates of ``generate`` in the loss of a trainer, against one sentence and one candidate at a time."""

import pytest
import torch

pytest.importorskip("transformers")

import bleugrad
from bleugrad.hf import BLEUCollator, BLEULoss, CandidateSearch
from tests.hf.models import (
    END,
    ENGLISH,
    PLAIN,
    ROUNDING,
    features,
    gradients,
    make_model,
    make_tokenizer,
    with_own_labels,
)

SINGLE = max(ROUNDING, 1e-8)
"""Tolerance of gradients: T5 normalises in single precision, and sums over candidates are in another order."""
NAMES = ("T5", "BART", "Marian", "NLLB")


def rows_for(name):
    """A few sentences whose labels share tokens with what the model generates."""
    return with_own_labels(make_model(name), features()[:4])


def sentence_risk(model, row, number, alpha, **options):
    """The loss of the candidates of one sentence."""
    inputs = {key: torch.tensor([row[key]]) for key in ("input_ids", "attention_mask")}
    limit = -(-12 * len(row["longest"]) // 10) + 3
    generated = model.eval().generate(**inputs, num_beams=number, num_return_sequences=number, max_new_tokens=limit)
    scores, risks = [], []
    for sequence in generated.tolist():
        start, *tokens = sequence
        tokens = tokens[: tokens.index(END) + 1] if END in tokens else tokens
        rows = model.train()(**inputs, decoder_input_ids=torch.tensor([[start, *tokens[:-1]]])).logits
        log_probs = rows[0].log_softmax(-1)[range(len(tokens)), tokens]
        scores.append(alpha * log_probs.mean())
        risks.append(1 - bleugrad.expected_bleu(rows, [[row["labels"]]], eos_id=END, **options).value)
    assert len(set(map(tuple, generated.tolist()))) == number
    return (torch.stack(scores).softmax(0) * torch.stack(risks)).sum()


def expected(model, rows, number=3, alpha=0.5, blend=1.0, **options):
    model.zero_grad()
    longest = max((row["labels"] for row in rows), key=len)
    total, labels = 0.0, sum(len(row["labels"]) for row in rows)
    for row in rows:
        risk = sentence_risk(model, row | {"longest": longest}, number, alpha, **options)
        inputs = {key: torch.tensor([row[key]]) for key in ("input_ids", "attention_mask", "labels")}
        total = total + blend * len(row["labels"]) * risk + (1 - blend) * len(row["labels"]) * model(**inputs).loss
    (total / labels).backward()
    return total.detach() / labels, gradients(model)


def assert_same(found, wanted):
    torch.testing.assert_close(found[0], wanted[0], rtol=0, atol=ROUNDING)
    assert max(grad.abs().max() for grad in wanted[1].values()) > 1e-4
    for name, grad in wanted[1].items():
        torch.testing.assert_close(found[1][name], grad, rtol=0, atol=SINGLE, msg=lambda m, name=name: f"{name}: {m}")


def run(model, rows, **options):
    loss = BLEULoss(model, make_tokenizer(), **PLAIN | options)
    batch = BLEUCollator(make_tokenizer(), model)(rows)
    labels = batch.pop("labels")
    model.zero_grad()
    value = loss(model(**batch), labels)
    value.backward()
    assert model.training
    return value.detach(), gradients(model)


@pytest.mark.parametrize("name", NAMES)
def test_value_and_gradient_are_those_of_single_candidates(name):
    model, rows = make_model(name), rows_for(name)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias[0, END] += 3  # some candidates end early
    search = CandidateSearch(3, alpha=0.5)
    found = run(model, rows, candidates=search, bleu_weight=0.8, special_tokens="include")
    assert_same(found, expected(model, rows, blend=0.8))


@pytest.mark.parametrize("name", ["T5", "Marian"])
def test_the_projection_can_be_left_to_the_loss(name):
    model, rows = make_model(name), rows_for(name)
    options = {"candidates": CandidateSearch(2), "sharpness": 1.5, "adaptive": True}
    assert_same(run(model, rows, fused=True, **options), run(make_model(name), rows, **options))


def test_special_tokens_count_neither_in_candidates_nor_in_references():
    model, row = make_model("T5"), rows_for("T5")[0]
    search = CandidateSearch(2, generation={"max_new_tokens": 8})
    plain = run(model, [row], candidates=search)[0]
    marked = [row | {"labels": [ENGLISH, *row["labels"]]}]
    torch.testing.assert_close(run(model, marked, candidates=search)[0], plain)
    assert (run(model, marked, candidates=search, special_tokens="include")[0] - plain).abs() > 1e-4
    assert run(model, [row], candidates=search, special_tokens=[row["labels"][0]])[0] != plain


def test_generation_has_its_options_and_several_references_count():
    model, rows = make_model("T5"), rows_for("T5")
    seen, generate = [], model.generate

    def watched(**options):
        seen.append(options)
        assert not model.training
        return generate(**options)

    model.generate = watched
    search = CandidateSearch(2, generation={"max_new_tokens": 5, "length_penalty": 0.5})
    several = [row | {"references": [row["labels"], [*row["labels"][-2::-1], END]]} for row in rows]
    more = run(model, several, candidates=search)[0]
    assert more < run(model, rows, candidates=search)[0]
    given = {name: value for name, value in seen[0].items() if name not in ("input_ids", "attention_mask")}
    assert given == {"num_beams": 2, "num_return_sequences": 2, "max_new_tokens": 5, "length_penalty": 0.5}


def test_evaluation_and_the_log_have_the_loss_of_candidates():
    model, rows = make_model("T5"), rows_for("T5")
    loss = BLEULoss(model, make_tokenizer(), **PLAIN, candidates=CandidateSearch(2))
    batch = BLEUCollator(make_tokenizer(), model)(rows)
    labels = batch.pop("labels")
    value = loss(model(**batch), labels)
    measured = loss.measurements()
    assert measured["expected_bleu"] == pytest.approx(1 - value.item())
    assert "expected_bleu_low" not in measured
    with torch.no_grad():
        model.eval()
        torch.testing.assert_close(loss(model(**batch), labels), value.detach())
    with pytest.raises(RuntimeError, match="without a forward pass"):
        loss(None, labels)


def test_wrong_uses_are_named():
    with pytest.raises(ValueError, match="candidates are given with a causal model; expected an encoder-decoder"):
        BLEULoss(make_model("GPT-2"), make_tokenizer(), candidates=CandidateSearch())
    with pytest.raises(ValueError, match="candidates are given with level 'corpus'; expected"):
        BLEULoss(make_model("T5"), make_tokenizer(), level="corpus", candidates=CandidateSearch())
    with pytest.raises(ValueError, match="number is 0; expected at least 1"):
        CandidateSearch(0)


@pytest.mark.slow  # the trainer takes ten seconds to import
def test_accumulated_micro_batches_are_one_big_batch(tmp_path):
    pytest.importorskip("accelerate")
    from tests.hf import trainers

    rows = rows_for("BART")
    options = {"candidates": CandidateSearch(3, alpha=0.5, generation={"max_new_tokens": 9}), "bleu_weight": 0.8}
    sizes = {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 2}
    found = trainers.one_step(tmp_path, "BART", rows, loss_options=options, **sizes)
    trainers.assert_step(found, run(make_model("BART"), rows, **options))
