"""Code that each of two processes runs; the tests compare its results with those of one process."""

import os

import torch

from tests.hf.models import LINES, PLAIN, encode_pairs, features, make_model, make_tokenizer
from tests.processes import PROCESSES

IGNORED_ROW = 3
HALVES = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
STEPS = {  # model, options of the loss, options of the trainer
    "tokens": ("T5", {"bleu_weight": 0.8}, HALVES),
    "tokens of each process": ("BART", {}, HALVES | {"average_tokens_across_devices": False}),
    "adaptive": ("T5", {"bleu_weight": 0.8, "adaptive": True}, HALVES),
    "tokens fused": ("Marian", {"bleu_weight": 0.8, "fused": True}, HALVES),
    "sentences": ("T5", {"bleu_weight": 0.8}, HALVES),
    "sentences of each process": ("T5", {}, HALVES | {"average_tokens_across_devices": False}),
    "sentences without accumulation": ("T5", {}, {"per_device_train_batch_size": 4}),
    "corpus": ("T5", {"level": "corpus"}, {"per_device_train_batch_size": 4}),
    "causal": ("GPT-2", {}, HALVES),
}
EVALUATED = 19


def rows_of(case):
    """Eight sentences; one of those weighted by sentences has nothing to learn from."""
    rows = features() if STEPS[case][0] != "GPT-2" else encode_pairs()
    if case.startswith("sentences"):
        rows[IGNORED_ROW]["labels"] = [-100] * 3
    return rows


def evaluation_rows():
    return features((LINES * 3)[:EVALUATED])


def evaluate(folder, size=EVALUATED):
    """The metrics, and how many rows the trainer passed to them."""
    from bleugrad.hf import BLEUMetrics
    from tests.hf.trainers import evaluating_trainer

    metrics, received = BLEUMetrics(make_tokenizer(), size=size, tokenize="char"), []

    def watched(prediction):
        received.append(len(prediction.predictions))
        return metrics(prediction)

    return evaluating_trainer(folder, evaluation_rows(), watched).evaluate(), received[0]


def shard_and_step(rank):
    """Gradients and loss of a sharded model, each process with half of the sentences, and an error."""
    from torch.distributed.fsdp import fully_shard

    found = {"plain": _sharded_step(rank, fused=False), "fused": _sharded_step(rank, fused=True)}
    found["fused after sharding"] = _sharded_step(rank, fused=True, loss_first=False)
    try:
        _sharded_step(rank, fused=True, first=lambda model, mesh: fully_shard(model.lm_head, mesh=mesh))
    except ValueError as error:
        found["apart"] = str(error)
    return found


def _sharded_step(rank, fused, first=lambda model, mesh: None, loss_first=True):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from bleugrad.hf import BLEUCollator, BLEULoss

    model, mesh = make_model("Llama"), init_device_mesh("cpu", (PROCESSES,))
    loss = BLEULoss(model, make_tokenizer(), fused=fused, **PLAIN) if loss_first else None
    first(model, mesh)
    fully_shard(model, mesh=mesh)
    loss = loss or BLEULoss(model, make_tokenizer(), fused=fused, **PLAIN)
    assert all(parameter.to_local().numel() < parameter.numel() for parameter in model.parameters())
    batch = BLEUCollator(make_tokenizer(), model)(encode_pairs()[rank::PROCESSES])
    labels = batch.pop("labels")
    value = loss(model(**batch), labels)
    value.backward()
    grads = {name: p.grad.full_tensor() for name, p in model.named_parameters() if p.grad is not None}
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return grads, value.detach()


def work(rank, folder):
    os.environ["ACCELERATE_USE_CPU"] = "1"
    from tests.hf import trainers

    results = {}
    for case, (name, loss_options, options) in STEPS.items():
        kind = trainers.SentenceTrainer if case.startswith("sentences") else trainers.Trainer
        found = trainers.one_step(
            folder / case, name, rows_of(case), trainer=kind, loss_options=loss_options, ddp_backend="gloo", **options
        )
        results[case] = found
    return results | {"evaluation": evaluate(folder), "sharded": shard_and_step(rank)}
