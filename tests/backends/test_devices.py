"""Asynchronous devices (GPUs): torch operations give the values of the CPU path without host synchronisation."""

import gc
import weakref

import pytest
import torch

import bleugrad
from bleugrad.backends import devices
from bleugrad.backends.operations import sum_distribution
from tests.backends.cases import OPTIONS, frames_and_gradient, loss_and_gradient
from tests.backends.launches import Launches

STARTS = torch.arange(60) % 2 == 0


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


def of_labels(logits, labels, options):
    """A loss and the gradient of its logits."""
    own = logits.clone().requires_grad_()
    loss = bleugrad.ExpectedBLEULoss(**options)(own, labels)
    return loss, *torch.autograd.grad(loss, own)


@pytest.mark.parametrize("options", [{}, {"eos_id": 0}, {"word_start": STARTS}, {"word_start": STARTS, "eos_id": 0}])
def test_longer_sentences_have_the_values_of_the_cpu(request, options):
    """Words of up to five tokens, n-grams that occur up to six times."""
    logits = 2 * torch.randn(2, 14, 60, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([[2, 3, 2, 3, 2, 4, 4, 4, 4, 2, 3, 3, 2, 3], [3, 5, 5, 7, 9, 2, 3, 5, 5, 7, 9, -100, 2, 2]])
    logits.scatter_add_(2, labels.clamp(min=0)[..., None], torch.full_like(logits[..., :1], 3.0))

    expected = of_labels(logits, labels, options)
    request.getfixturevalue("asynchronous")
    for one, wanted in zip(of_labels(logits, labels, options), expected, strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"eos_id": 0}, {"word_start": STARTS}, {"word_start": STARTS, "eos_id": 0}])
@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_short_sentences_have_the_values_of_the_cpu(request, options, steps):
    logits = torch.randn(2, steps, 60, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([[2, 3, 3, 2, 3], [4, 5, 4, 5, -100]])[:, :steps]

    expected = of_labels(logits, labels, options)
    request.getfixturevalue("asynchronous")
    for one, wanted in zip(of_labels(logits, labels, options), expected, strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"word_start": STARTS, "eos_id": 0}], ids=["tokens", "words"])
def test_several_references_have_the_values_of_the_cpu(request, options):
    """Of different lengths, one of them empty, with words that repeat in one reference and across references."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 8, 60, generator=generator, dtype=torch.float64)
    references = torch.randint(2, 7, (3, 3, 7), generator=generator)
    references[0, 1, 4:] = references[1, 2] = references[2, 0, 1:] = -100

    def found():
        own = logits.clone().requires_grad_()
        value = bleugrad.expected_bleu(own, references, **options).value
        return value.detach(), *torch.autograd.grad(value, own)

    expected = found()
    request.getfixturevalue("asynchronous")
    for one, wanted in zip(found(), expected, strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-12)


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


def test_the_counter_forbids_what_waits():
    with Launches() as launches, pytest.raises(AssertionError, match="wait"):
        torch.ones(2).sum().item()
    assert launches.counts == {"aten::ones": 1, "aten::sum": 1}


@pytest.mark.parametrize("options", [{"eos_id": 0}, {"word_start": STARTS, "eos_id": 0}], ids=["tokens", "words"])
def test_nothing_waits(asynchronous, options):
    """On tensors with values, where some n-grams count and others do not."""
    assert counted(2, 12, **options) > 0


@pytest.mark.parametrize("options", [{"level": "sentence"}, {"method": "bound"}, {"level": "sentence", "eos_id": 0}])
def test_other_losses_wait_for_nothing_either(asynchronous, options):
    assert counted(2, 8, **options) > 0


@pytest.mark.parametrize("max_order", [1, 3])
@pytest.mark.parametrize("graph", [False, True], ids=["frames", "graph"])
def test_one_pass_models_have_the_values_of_the_cpu_and_wait_for_nothing(request, graph, max_order):
    expected = frames_and_gradient(torch.float64, max_order, graph)
    request.getfixturevalue("asynchronous")
    with Launches():
        found = frames_and_gradient(torch.float64, max_order, graph)
    for one, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-12)


def one_pass_loss(steps, graph, dtype=torch.float64, batch=2):
    """The loss of CTC frames or of a graph with tokens that repeat, and the gradients of its leaves."""
    generator = torch.Generator().manual_seed(steps)
    shapes = [(batch, steps, 5), (batch, steps, steps)][: 1 + graph]
    leaves = [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]
    labels = torch.randint(1, 3, (batch, steps // 2 + 1), generator=generator)
    labels[0, steps // 3 :] = -100
    lengths = torch.tensor([steps] * (batch - 1) + [max(1, steps - 2)])
    output = bleugrad.Graph(*leaves, lengths=lengths) if graph else bleugrad.CTC(*leaves, blank_id=0, lengths=lengths)
    loss = bleugrad.ExpectedBLEULoss()(output, labels)
    return loss.detach(), *torch.autograd.grad(loss, leaves)


@pytest.mark.parametrize("graph", [False, True], ids=["frames", "graph"])
@pytest.mark.parametrize("steps", [1, 2, 7, 13])
def test_longer_outputs_of_one_pass_models_have_the_values_of_the_cpu(request, graph, steps):
    """With n-grams that occur up to six times and overlap themselves."""
    expected = one_pass_loss(steps, graph)
    request.getfixturevalue("asynchronous")
    with Launches():
        found = one_pass_loss(steps, graph)
    for one, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [bleugrad.ReinforceLoss, bleugrad.MinimumRiskLoss, bleugrad.UnbiasedBLEULoss])
def test_sampled_losses_wait_for_nothing(seed, asynchronous, kind):
    logits = torch.randn(2, 5, 60, requires_grad=True)
    with Launches():
        kind()(logits, torch.randint(9, (2, 5))).backward()
    assert logits.grad.abs().max() > 0


@pytest.mark.parametrize("options", [{}, {"word_start": STARTS}], ids=["tokens", "words"])
def test_projections_wait_for_nothing(asynchronous, options):
    hidden, weight = torch.randn(2, 5, 3, requires_grad=True), torch.randn(60, 3, requires_grad=True)
    with Launches():
        bleugrad.ExpectedBLEULoss(**options)(bleugrad.Projection(hidden, weight), torch.randint(9, (2, 5))).backward()
    assert weight.grad.abs().max() > 0


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


@pytest.mark.parametrize("numbers", [1, 2, 5, 16, 17])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_sums_in_groups_are_those_in_pairs(request, seed, numbers, size):
    """With a number that is certain and one whose transform has zeros, and the gradient of each number."""
    mass = torch.rand(1, 2, numbers, size, dtype=torch.float64)
    mass[0, 0, 0] = torch.nn.functional.one_hot(torch.tensor(size - 1), size)
    mass[0, 1, -1] = torch.nn.functional.pad(mass.new_ones(min(2, size)), (0, max(0, size - 2)))
    mass = (mass / mass.sum(-1, keepdim=True)).requires_grad_()
    expected = sum_distribution(mass)
    weights = torch.randn_like(expected)
    of_mass = torch.autograd.grad((expected * weights).sum(), mass)[0]
    request.getfixturevalue("asynchronous")
    found = sum_distribution(mass)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(torch.autograd.grad((found * weights).sum(), mass)[0], of_mass, rtol=0, atol=1e-13)
    assert torch.autograd.gradcheck(sum_distribution, mass)
