"""Devices that are not waited for: the values of the CPU path, no host synchronisation, few operations."""

import gc
import weakref

import pytest
import torch

import bleugrad
from bleugrad.backends import devices, operations
from tests.backends.cases import OPTIONS, loss_and_gradient
from tests.backends.launches import Launches


@pytest.fixture
def asynchronous(torch_operations):
    """CPU tensors are treated as those of a device whose values are not read back; the C kernels are off."""
    devices.SYNCHRONOUS.discard("cpu")
    yield
    devices.SYNCHRONOUS.add("cpu")


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_are_those_of_the_cpu(request, name, dtype):
    expected = loss_and_gradient(name, dtype)
    request.getfixturevalue("asynchronous")
    tolerance = {torch.float32: 1e-6, torch.float64: 1e-12}[dtype]
    for found, wanted in zip(loss_and_gradient(name, dtype), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance)


def counted(batch, steps, vocabulary=60, **options):
    """The operations of a loss and its gradient; labels repeat each token about eight times."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(batch, steps, vocabulary, generator=generator).requires_grad_()
    labels = torch.randint(max(2, steps // 8), (batch, steps), generator=generator)
    labels[0, steps // 2 :] = -100
    loss = bleugrad.ExpectedBLEULoss(**options)
    with Launches() as launches:
        loss(logits, labels).backward()
    assert logits.grad.abs().max() > 0
    return launches.total


STARTS = torch.arange(60) % 2 == 0


def test_the_counter_forbids_what_waits():
    with Launches() as launches, pytest.raises(AssertionError, match="wait"):
        torch.ones(2).sum().item()
    assert launches.counts == {"aten::ones": 1, "aten::sum": 1}


@pytest.mark.parametrize("options", [{}, {"eos_id": 0}], ids=["tokens", "eos"])
def test_the_number_of_operations_grows_with_the_logarithm_of_the_positions(asynchronous, options):
    """Whatever the batch and the repeats are; T = 128 has three levels more than T = 16."""
    small, other, large = counted(2, 16, **options), counted(5, 16, **options), counted(2, 64, **options)
    assert small == other
    assert large - small <= 2 * 40
    assert small <= FEW[bool(options)]


FEW = {False: 380, True: 480}


@pytest.mark.parametrize("options", [{"word_start": STARTS}, {"word_start": STARTS, "eos_id": 0}], ids=["words", "eos"])
def test_words_wait_for_nothing_either(asynchronous, options):
    """Their recursion walks over the positions."""
    assert counted(2, 16, **options) == counted(5, 16, **options)


@pytest.mark.parametrize("options", [{"level": "sentence"}, {"method": "bound"}, {"level": "sentence", "eos_id": 0}])
def test_other_losses_wait_for_nothing_either(asynchronous, options):
    assert counted(2, 8, **options) > 0


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("order", [None, torch.tensor([[0, 1, 2], [1, 2, 0]])])
def test_gradients_of_the_operations_for_devices(seed, words, order):
    """Against finite differences; the second sentence counts two of its three positions."""
    probs = (0.3 * torch.rand(2, 3, 4, dtype=torch.float64)).requires_grad_()
    opening = (0.6 * torch.rand(2, 3, dtype=torch.float64)).requires_grad_() if words else None
    limits = torch.tensor([3, 3 if order is None else 2])

    def value(probs, opening):
        found = operations.row_windows(probs, opening, order, limits, torch.tensor([2, 1]), 2, True)
        units, alive, survival, stop, lengths, opened, boundary, new_limits = found
        assert new_limits.tolist() == [5, int(limits[1]) + 1]
        new_matches = units * (alive + survival.square())[..., None] * (opened[..., None] if words else 1)
        chances = stop / stop.sum(1, keepdim=True) if words else lengths
        matches, totals = operations.match_totals(new_matches, boundary if words else None, chances, None)
        return operations.corpus_bleu(matches, totals, chances[0], None, limits, [0.5, 0.2, 0.3], 0.5)

    assert torch.autograd.gradcheck(value, (probs, opening))


@pytest.mark.parametrize("options", [{}, {"word_start": STARTS, "eos_id": 0}], ids=["tokens", "words, eos"])
def test_nothing_lives_on(asynchronous, options):
    """Without a backward pass the graph frees itself: no operation keeps its own output."""
    loss = bleugrad.ExpectedBLEULoss(**options)
    labels = torch.randint(9, (2, 5))
    gc.disable()
    try:
        loss(torch.randn(2, 5, 60, requires_grad=True), labels)
        logits = torch.randn(2, 5, 60, requires_grad=True)
        alive, value = weakref.ref(logits), loss(logits, labels)
        del logits, value
        assert alive() is None
    finally:
        gc.enable()
