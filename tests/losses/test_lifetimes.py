"""A forward pass without a backward pass frees its tensors at once, before the garbage collector runs."""

import gc
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import nn

import bleugrad
from bleugrad.backends import operations
from bleugrad.backends.dispatch import Operation
from tests.losses.cases import draw_batch

B, T, V = 2, 6, 9
STARTS = torch.arange(V) % 3 > 0


def of(loss, **keywords):
    """The loss as a function of logits."""
    return lambda logits: loss(logits, draw_batch(B, T, V)[1], **keywords)


def of_hidden(**options):
    """The loss from hidden states as a function of them."""
    head, loss = nn.Linear(V, V), of(bleugrad.ExpectedBLEULoss(cross_entropy_weight=1.0, **options))
    return lambda hidden: loss(bleugrad.Projection(hidden, head.weight.to(hidden), head.bias.to(hidden)))


def of_output(kind):
    """The loss of a CTC or graph output as a function of its logits; label 0 is the blank, so labels start at 1."""
    loss, labels = bleugrad.ExpectedBLEULoss(), torch.tensor([[1, 2, 3], [4, 4, -100]])
    return lambda logits: loss(kind(logits), labels)


CALLS = {
    "exact": of(bleugrad.ExpectedBLEULoss(cross_entropy_weight=1.0)),
    "bound": of(bleugrad.ExpectedBLEULoss(method="bound")),
    "eos": of(bleugrad.ExpectedBLEULoss(eos_id=0)),
    "bound eos": of(bleugrad.ExpectedBLEULoss(method="bound", eos_id=0)),
    "words": of(bleugrad.ExpectedBLEULoss(word_start=STARTS)),
    "words eos": of(bleugrad.ExpectedBLEULoss(word_start=STARTS, eos_id=0)),
    "several references": of(bleugrad.ExpectedBLEULoss(eos_id=0), references=[[[1, 2], [3]]] * B),
    "linear": of_hidden(),
    "linear words": of_hidden(word_start=STARTS),
    "ctc": of_output(lambda logits: bleugrad.CTC(logits, blank_id=0)),
    "graph": of_output(lambda logits: bleugrad.Graph(logits, logits[..., :T])),
    "sums": lambda logits: operations.sum_distribution(logits.softmax(-1)[None]),
    "reinforce": of(bleugrad.ReinforceLoss(generator=0)),
    "minimum risk": of(bleugrad.MinimumRiskLoss(generator=0)),
    "unbiased": of(bleugrad.UnbiasedBLEULoss(generator=0, cross_entropy_weight=1.0)),
    "unbiased words eos": of(bleugrad.UnbiasedBLEULoss(generator=0, word_start=STARTS, eos_id=0)),
    "result": lambda logits: bleugrad.expected_bleu(logits, [[1, 2, 3]] * B, word_start=STARTS).value,
}


@pytest.fixture
def no_collection():
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(params=["kernels", "torch operations"])
def backend(request, monkeypatch):
    if request.param == "torch operations":
        monkeypatch.setenv("BLEUGRAD_KERNELS", "0")


def assert_freed(call, dtype=torch.float32):
    """Any node of the graph that lives on keeps the logits alive."""
    call(torch.randn(B, T, V, dtype=dtype, requires_grad=True))  # torch keeps the first arguments of an operator
    logits = torch.randn(B, T, V, dtype=dtype, requires_grad=True)
    alive, value = weakref.ref(logits), call(logits)
    assert value.requires_grad
    del logits, value
    assert alive() is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_nothing_lives_on(seed, backend, no_collection, call, dtype):
    if call is not CALLS["sums"] or dtype != torch.bfloat16:  # which has no Fourier transform
        assert_freed(call, dtype)


def test_nothing_lives_on_where_processes_pool(seed, no_collection, tmp_path):
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        assert_freed(of(bleugrad.ExpectedBLEULoss(eos_id=0, process_group=dist.group.WORLD)))
    finally:
        dist.destroy_process_group()


def test_the_calls_above_use_every_operation_with_a_gradient(seed, monkeypatch):
    used, forward = set(), Operation.forward
    monkeypatch.setattr(Operation, "forward", lambda *given: used.add(given[0].name) or forward(*given))
    for call in CALLS.values():
        call(torch.randn(B, T, V, requires_grad=True))
    differentiable = {
        one.name for one in vars(operations).values() if isinstance(one, Operation) and one.differentiable
    }
    assert differentiable <= used
