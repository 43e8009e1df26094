"""The custom operators: what torch demands of them, and that working in blocks of n-grams changes nothing."""

import importlib
import itertools
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import bleugrad

build = importlib.import_module("bleugrad.core.native.build")
blocks = importlib.import_module("bleugrad.core.blocks")
bound = importlib.import_module("bleugrad.core.bound")
convolution = importlib.import_module("bleugrad.core.convolution")
expected_matches = importlib.import_module("bleugrad.core.expected_matches")
importlib.import_module("bleugrad.core.lengths")  # registers bleugrad::sum_distribution
REFERENCES = [[[0, 1, 0, 1, 2, 0]], [[2, 2, 2, 2], [1, 0, 2]], [[3, 1, 3]]]
COLUMNS = 12  # the longest, and room for two
STEPS, VOCABULARY, EOS = 7, 5, 4
pytestmark = pytest.mark.usefixtures("torch_operations")


class Recorder(TorchDispatchMode):
    """Keeps the arguments of every call of an operator of ours."""

    def __init__(self):
        super().__init__()
        self.calls = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if getattr(function, "namespace", None) == "bleugrad":
            self.calls.setdefault(function, args)
        return function(*args, **(kwargs or {}))


def plain(dtype=torch.float64, **options):
    logits = torch.randn(3, STEPS, VOCABULARY, dtype=dtype, requires_grad=True)
    labels = torch.randint(VOCABULARY, (3, STEPS))
    return bleugrad.ExpectedBLEULoss(**options)(logits, labels, references=REFERENCES)


def fused(dtype=torch.float64, bias=True, **options):
    hidden, weight = torch.randn(3, STEPS, 4, dtype=dtype), torch.randn(VOCABULARY, 4, dtype=dtype)
    bias = torch.randn(VOCABULARY, dtype=dtype, requires_grad=True) if bias else None
    labels = torch.randint(VOCABULARY, (3, STEPS))
    loss = bleugrad.LinearExpectedBLEULoss(**options)
    return loss(hidden.requires_grad_(), weight.requires_grad_(), labels, bias, references=REFERENCES)


MATCH, LINEAR = "match_probabilities", "linear_match_probabilities"
# Each call's operators are checked, those that an earlier one has not shown in the same form.
CALLS = {
    "half": (lambda: plain(torch.bfloat16), {MATCH, f"{MATCH}_backward", "expected_matches"}),
    "half, cross-entropy": (
        lambda: plain(torch.float16, cross_entropy_weight=1.0, max_order=1),
        {MATCH, f"{MATCH}_backward"},
    ),
    "exact": (plain, {"expected_matches", "expected_matches_backward"}),
    "exact, eos": (
        lambda: plain(eos_id=EOS),
        {"expected_matches", "expected_matches_backward", "sum_distribution"},
    ),
    "bound": (lambda: plain(method="bound"), {"bound_matches", "bound_matches_backward"}),
    "bound, eos": (lambda: plain(method="bound", eos_id=EOS), {"bound_matches", "bound_matches_backward"}),
    "fused": (lambda: fused(torch.float32, bias=False), {LINEAR, f"{LINEAR}_backward"}),
    "fused, cross-entropy": (lambda: fused(cross_entropy_weight=1.0), {LINEAR, f"{LINEAR}_backward"}),
}


def fresh(argument, differentiable):
    """A copy; the backward operators are not differentiable themselves."""
    if not isinstance(argument, torch.Tensor):
        return argument
    return argument.detach().clone().requires_grad_(argument.requires_grad and differentiable)


@pytest.mark.parametrize("name", CALLS)
def test_opcheck(seed, name, monkeypatch, torch_operations):
    """Schema, fake tensors, autograd registration and static and dynamic tracing, by torch's own checker."""
    monkeypatch.setattr(expected_matches, "KEPT_ELEMENTS", 0)  # so that each is an operator, and no run is kept
    monkeypatch.setattr(convolution, "keep_run", lambda make, operator, backward, *inputs: operator(*inputs))
    call, wanted = CALLS[name]
    with Recorder() as recorder:
        call().backward()
    found = {function._schema.name.removeprefix("bleugrad::"): function for function in recorder.calls}
    assert wanted <= set(found)
    monkeypatch.delenv(build.SWITCH)  # checked as they are used, by kernels where those are there
    for operator in wanted:
        differentiable = not operator.endswith("_backward")
        arguments = tuple(fresh(argument, differentiable) for argument in recorder.calls[found[operator]])
        torch.library.opcheck(found[operator], arguments)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("numbers", "size"), [(1, 3), (2, 1), (2, 4), (3, 2), (5, 3)])
def test_distribution_of_a_sum(seed, parts, numbers, size):
    """Against all outcomes written out; the backward pass against finite differences."""
    mass = torch.rand(parts, 2, numbers, size, dtype=torch.float64, requires_grad=True)
    operator = torch.ops.bleugrad.sum_distribution
    found = operator(mass).detach()
    expected = torch.zeros_like(found)
    for problem in range(2):
        for outcome in itertools.product(range(size), repeat=numbers):
            plain = [mass[0, problem, number, value].item() for number, value in enumerate(outcome)]
            expected[0, problem, sum(outcome)] += math.prod(plain)
            for special in range(numbers if parts == 2 else 0):
                weighted = mass[1, problem, special, outcome[special]].item()
                expected[1, problem, sum(outcome)] += weighted * math.prod(plain[:special] + plain[special + 1 :])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    assert torch.autograd.gradcheck(operator, mass, atol=1e-8)


def value_and_gradient(logits, **options):
    logits = logits.clone().requires_grad_()
    result = bleugrad.expected_bleu(logits, REFERENCES, smoothing=0.5, **options)
    result.value.sum().backward()
    return result.matches.detach(), result.value.detach(), logits.grad


@pytest.mark.parametrize("columns_at_once", [0.01, 1, 2, 5, 7])
@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("eos_id", [None, EOS])
def test_the_size_of_the_blocks_of_ngrams_changes_nothing(
    seed, monkeypatch, torch_operations, columns_at_once, method, eos_id
):
    """Down to one column and one special n-gram at a time: windows reach over the edges of the blocks."""
    logits = 2 * torch.randn(3, STEPS, VOCABULARY, dtype=torch.float64)
    runs = []
    run = blocks.renewal.run
    monkeypatch.setattr(blocks.renewal, "run", lambda chain: runs.append(1) or run(chain))
    whole = value_and_gradient(logits, method=method, eos_id=eos_id)
    least, runs[:] = len(runs), []
    elements = int(columns_at_once * STEPS * 3 * 4)
    for module in (expected_matches, bound):
        monkeypatch.setattr(module, "BLOCK_ELEMENTS", elements)
    monkeypatch.setattr(expected_matches, "BLOCK_ROW", 0)
    ranges = list(blocks.column_blocks(torch.empty(STEPS, 3, COLUMNS), 4, elements))
    assert len(ranges) == -(-COLUMNS // max(1, int(columns_at_once)))
    parts = value_and_gradient(logits, method=method, eos_id=eos_id)
    assert len(runs) > least  # the certificates of "bound" run it too
    for actual, expected in zip(parts, whole, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-14)
