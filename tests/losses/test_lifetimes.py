"""A forward pass without a backward pass frees its tensors at once, before the garbage collector runs."""

import gc
import weakref

import pytest
import torch
import torch.distributed as dist
from bleugrad.core.convolution import sum_distribution
from torch import nn

import bleugrad
from tests.losses.cases import draw_batch

B, T, V = 2, 6, 9
STARTS = torch.arange(V) % 3 > 0


def of(loss, **keywords):
    """The loss as a function of logits."""
    return lambda logits: loss(logits, draw_batch(B, T, V)[1], **keywords)


def of_hidden(**options):
    """The loss from hidden states as a function of them."""
    head, loss = nn.Linear(V, V), bleugrad.LinearExpectedBLEULoss(cross_entropy_weight=1.0, **options)
    return lambda hidden: loss(hidden, head.weight.to(hidden), draw_batch(B, T, V)[1], head.bias.to(hidden))


CALLS = {
    "exact": of(bleugrad.ExpectedBLEULoss(cross_entropy_weight=1.0)),
    "bound": of(bleugrad.ExpectedBLEULoss("bound")),
    "eos": of(bleugrad.ExpectedBLEULoss(eos_id=0)),
    "bound eos": of(bleugrad.ExpectedBLEULoss("bound", eos_id=0)),
    "words": of(bleugrad.ExpectedBLEULoss(word_start=STARTS)),
    "words eos": of(bleugrad.ExpectedBLEULoss(word_start=STARTS, eos_id=0)),
    "several references": of(bleugrad.ExpectedBLEULoss(eos_id=0), references=[[[1, 2], [3]]] * B),
    "linear": of_hidden(),
    "linear words": of_hidden(word_start=STARTS),
    "sums": lambda logits: sum_distribution(logits.softmax(-1)[None]),
    "reinforce": of(bleugrad.ReinforceLoss(generator=0)),
    "minimum risk": of(bleugrad.MinimumRiskLoss(generator=0)),
    "unbiased": of(bleugrad.UnbiasedBLEULoss(generator=0)),
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


def nodes(root):
    """The names of the nodes of a graph."""
    found, waiting = set(), [root]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.add(node)
            waiting += [above for above, _ in node.next_functions]
    return {node.name().removesuffix("Backward") for node in found}


def test_the_calls_above_use_every_function_with_a_gradient_of_its_own(seed, monkeypatch):
    used = set()
    for kernels in ("1", "0"):
        monkeypatch.setenv("BLEUGRAD_KERNELS", kernels)
        for dtype in (torch.float32, torch.float64):
            for call in CALLS.values():
                used |= nodes(call(torch.randn(B, T, V, dtype=dtype, requires_grad=True)).grad_fn)
    defined = {
        function.__name__
        for function in torch.autograd.Function.__subclasses__()
        if function.__module__.startswith("bleugrad.")
    }
    assert defined - used <= {"_AllReduce"}  # which has the test of its own
