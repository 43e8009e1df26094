"""The custom operators: what torch demands of them, and that working in blocks of n-grams changes nothing."""

import importlib

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import bleugrad

blocks = importlib.import_module("bleugrad.core.blocks")
bound = importlib.import_module("bleugrad.core.bound")
expected_matches = importlib.import_module("bleugrad.core.expected_matches")
importlib.import_module("bleugrad.core.lengths")  # registers bleugrad::convolve
REFERENCES = [[[0, 1, 0, 1, 2, 0]], [[2, 2, 2, 2], [1, 0, 2]], [[3, 1, 3]]]
COLUMNS = 12  # the longest, and room for two
STEPS, VOCABULARY, EOS = 7, 5, 4


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
        {"expected_matches", "expected_matches_backward", "convolve"},
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
def test_opcheck(seed, name):
    """Schema, fake tensors, autograd registration and static and dynamic tracing, by torch's own checker."""
    call, wanted = CALLS[name]
    with Recorder() as recorder:
        call().backward()
    found = {function._schema.name.removeprefix("bleugrad::"): function for function in recorder.calls}
    assert wanted <= set(found)
    for operator in wanted:
        differentiable = not operator.endswith("_backward")
        arguments = tuple(fresh(argument, differentiable) for argument in recorder.calls[found[operator]])
        torch.library.opcheck(found[operator], arguments)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 6), (5, 3), (4, 4)])
def test_convolution(seed, first, second):
    """Against the sum written out; the backward pass against finite differences."""
    left, right = (torch.rand(2, size, dtype=torch.float64, requires_grad=True) for size in (first, second))
    convolve = torch.ops.bleugrad.convolve
    found = convolve(left, right)
    expected = torch.zeros(2, first + second - 1, dtype=torch.float64)
    for i in range(first):
        for j in range(second):
            expected[:, i + j] += left[:, i].detach() * right[:, j].detach()
    torch.testing.assert_close(found.detach(), expected, rtol=0, atol=1e-14)
    assert torch.autograd.gradcheck(convolve, (left, right), atol=1e-9)


def value_and_gradient(logits, **options):
    logits = logits.clone().requires_grad_()
    result = bleugrad.expected_bleu(logits, REFERENCES, smoothing=0.5, **options)
    result.value.sum().backward()
    return result.matches.detach(), result.value.detach(), logits.grad


@pytest.mark.parametrize("columns_at_once", [0.01, 1, 2, 5, 7])
@pytest.mark.parametrize("method", ["exact", "bound"])
@pytest.mark.parametrize("eos_id", [None, EOS])
def test_the_size_of_the_blocks_of_ngrams_changes_nothing(seed, monkeypatch, columns_at_once, method, eos_id):
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
    ranges = list(blocks.column_blocks(torch.empty(STEPS, 3, COLUMNS), 4, elements))
    assert len(ranges) == -(-COLUMNS // max(1, int(columns_at_once)))
    parts = value_and_gradient(logits, method=method, eos_id=eos_id)
    assert len(runs) > least  # the certificates of "bound" run it too
    for actual, expected in zip(parts, whole, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-14)
