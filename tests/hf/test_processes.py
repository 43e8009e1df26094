"""Two processes, with and without accumulation, have the steps, logged losses and scores of one process."""

import pytest
import torch
import torch.distributed as dist

pytest.importorskip("accelerate")

import bleugrad
from bleugrad.hf import BLEUCollator
from tests.hf.models import END, encode_pairs, features, gradients, make_model, make_tokenizer
from tests.hf.oracle import step_loss
from tests.hf.processes import EVALUATED, STEPS, evaluate, rows_of, work
from tests.processes import run_processes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="torch was built without gloo"),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    return run_processes(work, folder, folder)


def in_one_process(case):
    """Loss and gradients from the definition."""
    name, options, _ = STEPS[case]
    model, rows = make_model(name), rows_of(case)
    if options.get("level") == "corpus":
        batch = BLEUCollator(make_tokenizer(), model)(features())
        value = bleugrad.ExpectedBLEULoss(eos_id=END)(model(**batch).logits, batch["labels"])
    else:
        counted = [row for row in rows if any(label != -100 for label in row["labels"])]
        weighting = "sentences" if case.startswith("sentences") else "tokens"
        blend = options.get("bleu_weight", 1.0)
        adaptive = options.get("adaptive", False)
        value = step_loss(model, counted, weighting=weighting, blend=blend, adaptive=adaptive, eos_id=END)
    value.backward()
    return value.detach(), gradients(model)


@pytest.mark.parametrize("case", STEPS)
def test_a_step_of_two_processes_is_the_step_of_one(results, case):
    from tests.hf.trainers import assert_step

    wanted = in_one_process(case)
    for rank in (0, 1):
        assert_step(results[rank][case], wanted)


def test_repeated_rows_do_not_change_the_score(results, tmp_path):
    (alone, all_rows), (found, rows) = evaluate(tmp_path), results[0]["evaluation"]
    assert all_rows == EVALUATED
    assert found["eval_bleu"] == pytest.approx(alone["eval_bleu"], abs=1e-9)
    assert found["eval_bleu"] > 0
    assert rows > EVALUATED  # the trap: the last batches were filled up


def test_sharded_models_have_the_gradients_of_one_process(results):
    """Each process weights its sentences by the labels of all: FSDP averages gradients as DDP does."""
    model = make_model("Llama")
    value = step_loss(model, encode_pairs(), eos_id=END)
    value.backward()
    for part in ("plain", "fused", "fused after sharding"):
        for rank in (0, 1):
            grads, _ = results[rank]["sharded"][part]
            for name, grad in gradients(model).items():
                torch.testing.assert_close(grads[name], grad, rtol=0, atol=1e-12)
        mean = (results[0]["sharded"][part][1] + results[1]["sharded"][part][1]) / 2
        torch.testing.assert_close(mean, value.detach(), rtol=0, atol=1e-12)


def test_a_projection_sharded_on_its_own_cannot_be_fused(results):
    assert "leave fused=True out" in results[0]["sharded"]["apart"]
