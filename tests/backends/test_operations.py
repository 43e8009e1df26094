"""The operations pass torch's checks of custom operators; neither backend nor block size changes a result."""

import itertools
import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import bleugrad
from bleugrad.backends import last_used, operations
from bleugrad.backends.c import library
from bleugrad.backends.c.library import SWITCH
from bleugrad.backends.dispatch import Operation
from bleugrad.backends.torch import bound_matches
from bleugrad.backends.torch.windows import column_blocks

REFERENCES = [[[0, 1, 0, 1, 2, 0]], [[2, 2, 2, 2], [1, 0, 2]], [[3, 1, 3]]]
COLUMNS = 12  # the longest, and room for two
STEPS, VOCABULARY, EOS = 7, 5, 4
STARTS = torch.tensor([True, False, True, True, False])
OPERATIONS = {one.name: one for one in vars(operations).values() if isinstance(one, Operation)}


def plain(dtype=torch.float64, kind=bleugrad.ExpectedBLEULoss, **options):
    logits = torch.randn(3, STEPS, VOCABULARY, dtype=dtype, requires_grad=True)
    labels = torch.randint(VOCABULARY, (3, STEPS))
    return kind(**options)(logits, labels, references=REFERENCES)


def projected(dtype=torch.float64, bias=True, frozen=False, **options):
    hidden, weight = torch.randn(3, STEPS, 4, dtype=dtype), torch.randn(VOCABULARY, 4, dtype=dtype)
    bias = torch.randn(VOCABULARY, dtype=dtype, requires_grad=not frozen) if bias else None
    output = bleugrad.Projection(hidden.requires_grad_(), weight.requires_grad_(not frozen), bias)
    labels = torch.randint(VOCABULARY, (3, STEPS))
    return bleugrad.ExpectedBLEULoss(**options)(output, labels, references=REFERENCES)


def sampled(**options):
    return plain(kind=bleugrad.UnbiasedBLEULoss, generator=0, **options)


def framed(dtype=torch.float64, **options):
    logits = torch.randn(3, STEPS, VOCABULARY, dtype=dtype, requires_grad=True)
    output = bleugrad.CTC(logits, blank_id=EOS, lengths=torch.tensor([STEPS, 5, 2]))
    return bleugrad.ExpectedBLEULoss(**options)(output, references=REFERENCES)


def walked(dtype=torch.float64, **options):
    logits, transitions = (torch.randn(3, STEPS, size, dtype=dtype, requires_grad=True) for size in (VOCABULARY, STEPS))
    output = bleugrad.Graph(logits, transitions, lengths=torch.tensor([STEPS, 5, 1]))
    return bleugrad.ExpectedBLEULoss(**options)(output, references=REFERENCES)


ROWS, PROJECTED = "row_probabilities", "projected_probabilities"
# Each call's operations are checked, those that an earlier one has not shown in the same form.
CALLS = {
    "half": (lambda: plain(torch.bfloat16), {ROWS, "exact_matches"}),
    "recipe": (
        lambda: plain(torch.float32, word_start=STARTS, sharpness=1.5, cross_entropy_weight=1.0, label_smoothing=0.1),
        {ROWS},
    ),
    "half, cross-entropy": (lambda: plain(torch.float16, cross_entropy_weight=1.0, max_order=1), {ROWS}),
    "single, words": (lambda: plain(torch.float32, word_start=STARTS, cross_entropy_weight=1.0), {ROWS}),
    "exact": (plain, {"exact_matches"}),
    "exact, eos": (lambda: plain(eos_id=EOS), {"counted_rows", "exact_matches", "sum_distribution"}),
    "bound": (lambda: plain(method="bound"), {"bound_matches"}),
    "bound, eos": (lambda: plain(method="bound", eos_id=EOS), {"bound_matches"}),
    "words": (
        lambda: plain(word_start=STARTS),
        {"segment_words", "ngram_clips", "word_probabilities", "word_counts", "exact_matches"},
    ),
    "words, eos": (
        lambda: plain(word_start=STARTS, eos_id=EOS),
        {"counted_rows", "word_probabilities", "word_counts", "exact_matches"},
    ),
    "words, bound": (lambda: plain(word_start=STARTS, method="bound"), {"bound_matches"}),
    "words, bound, eos": (lambda: plain(word_start=STARTS, method="bound", eos_id=EOS), {"bound_matches"}),
    "projection": (lambda: projected(torch.float32, bias=False), {PROJECTED}),
    "projection, cross-entropy": (lambda: projected(cross_entropy_weight=1.0), {PROJECTED}),
    "projection, frozen": (lambda: projected(torch.float32, frozen=True, cross_entropy_weight=1.0), {PROJECTED}),
    "projection, words": (lambda: projected(word_start=STARTS), {PROJECTED}),
    "frames": (framed, {"frame_probabilities", "frame_matches"}),
    "frames, single": (lambda: framed(torch.float32), {"frame_probabilities", "frame_matches"}),
    "frames, half": (lambda: framed(torch.bfloat16), {"frame_probabilities"}),
    "paths": (walked, {"path_matches"}),
    "paths, lengths only": (lambda: walked(torch.float32, method="clipped_mean"), {"path_matches"}),
    "samples": (lambda: sampled(cross_entropy_weight=1.0), {"sampled_tokens", ROWS}),
    "samples, words": (lambda: sampled(samples=2, word_start=STARTS, eos_id=EOS), {"sampled_tokens", ROWS}),
}


@pytest.fixture
def recorded(seed, monkeypatch):
    """Runs a call forward and back; the last inputs of each operation, and the last arguments of its backward pass."""

    def record(call):
        forwards, backwards = {}, {}
        forward, backward = Operation.forward, Operation.backward
        with monkeypatch.context() as patch:
            patch.setattr(
                Operation, "forward", lambda *given: forwards.update({given[0].name: given[2]}) or forward(*given)
            )
            patch.setattr(
                Operation, "backward", lambda *given: backwards.update({given[0].name: given[3:]}) or backward(*given)
            )
            call().backward()
        return forwards, backwards

    return record


def fresh(value, differentiable=False):
    """A copy, of tensors in tuples too."""
    if isinstance(value, tuple):
        return tuple(fresh(one) for one in value)
    return value.detach().clone().requires_grad_(differentiable) if isinstance(value, torch.Tensor) else value


def test_the_calls_use_every_operation():
    assert set().union(*(wanted for _, wanted in CALLS.values())) == set(OPERATIONS)


@pytest.mark.parametrize("name", CALLS)
def test_opcheck(recorded, name):
    """Schema, fake tensors, autograd registration and static and dynamic tracing, by torch's own checker."""
    call, wanted = CALLS[name]
    forwards, backwards = recorded(call)
    for found in wanted:
        operation, inputs = OPERATIONS[found], forwards[found]
        leaves = [fresh(value, index in operation.differentiable) for index, value in enumerate(inputs)]
        torch.library.opcheck(getattr(torch.ops.bleugrad, found).default, tuple(leaves))
        if operation.differentiable:
            needs, grads, outputs, inputs = fresh(backwards[found])
            operator = getattr(torch.ops.bleugrad, f"{found}_backward").default
            torch.library.opcheck(operator, (*grads, *outputs, *inputs, list(needs)))


TOLERANCES = {
    torch.float64: {"rtol": 0, "atol": 1e-13},
    torch.float32: {"rtol": 1e-5, "atol": 1e-7},
    torch.bfloat16: {"rtol": 2**-7, "atol": 1e-6},
    torch.float16: {"rtol": 2**-9, "atol": 1e-6},
}


UNSUPPORTED = {
    ("frames", "frame_probabilities"),
    ("samples", ROWS),
    ("samples, words", ROWS),
    ("bound, eos", "bound_matches"),
    ("words, bound, eos", "bound_matches"),
    ("exact, eos", "sum_distribution"),  # of several references
}
"""Calls for which the compiled backend leaves an operation to torch."""


def comparable(name, gradient, of, inputs):
    """A gradient as far as it matters.

    Where a word is too long to end there, its probability is 0 and its gradient is not looked at. Columns of the same
    token have the same probability, and only the sum of their gradients is determined.
    """
    if name in ("frame_matches", "path_matches") and of is inputs[0]:
        ids = inputs[4]
        return gradient.new_zeros(*gradient.shape[:2], VOCABULARY).scatter_add(2, ids.expand_as(gradient), gradient)
    return gradient if name in WHOLE else gradient * (of != 0)


WHOLE = (ROWS, "counted_rows", "frame_probabilities", "frame_matches", "path_matches", "sum_distribution")


@pytest.mark.skipif(library.library_for(torch.empty(1)) is None, reason="no kernels")
@pytest.mark.parametrize("name", CALLS)
def test_every_backend_has_the_values_and_gradients_of_torch(recorded, name):
    call, wanted = CALLS[name]
    forwards, backwards = recorded(call)
    for found in wanted - {"segment_words"}:  # numbers words differently, which has a test of its own
        operation, inputs = OPERATIONS[found], fresh(forwards[found])
        if "c" not in operation.backends:
            continue
        needs, grads, *_ = fresh(backwards[found]) if operation.differentiable else ((), ())
        results = []
        for backend in ("c", "torch"):  # Triton has tests of its own
            if (result := operation._forward(backend, True, inputs)) is None:
                assert (name, found) in UNSUPPORTED
                continue
            outputs, kept = result
            gradients = operation._module(backend).backward(kept, needs, grads, outputs, inputs) if needs else ()
            possible = [inputs[index] for index in operation.differentiable]
            results.append(
                [
                    *outputs,
                    *(
                        comparable(found, one, of, inputs)
                        for one, of, need in zip(gradients, possible, needs, strict=True)
                        if need
                    ),
                ]
            )
        for result in results[1:]:
            for actual, expected in zip(result, results[0], strict=True):
                torch.testing.assert_close(actual, expected, **TOLERANCES.get(actual.dtype, {}))


@pytest.mark.parametrize("kernels", ["c", "torch"])
def test_the_backend_last_used_is_known(seed, monkeypatch, kernels):
    if kernels == "torch":
        monkeypatch.setenv(SWITCH, "0")
    elif library.library_for(torch.empty(1)) is None:
        pytest.skip("no kernels")
    projected(), sampled(), framed(torch.float32), walked()
    logits = torch.randn(2, 4, VOCABULARY, requires_grad=True)
    for options in ({"word_start": STARTS, "eos_id": EOS}, {"method": "bound"}):
        bleugrad.expected_bleu(logits, [[0, 1], [2, 2]], **options)
    wanted = {name: kernels if "c" in operation.backends else "torch" for name, operation in OPERATIONS.items()}
    assert wanted[PROJECTED] == "torch"
    assert last_used() == wanted
    plain(method="bound", eos_id=EOS)
    assert last_used()["bound_matches"] == "torch"  # the compiled bound is for fixed lengths


def test_no_compiled_function_reads_a_tensor_without_memory(monkeypatch):
    """Fake tensors, and those inside transforms of torch.func."""
    monkeypatch.setattr(library.Library, "run", lambda *_, **__: pytest.fail("it was called"))
    with FakeTensorMode():
        mass = torch.empty(1, 2, 3, 4, requires_grad=True)
        assert operations.sum_distribution(mass).shape == (1, 2, 13)
        assert operations.word_counts(torch.empty(4, 2), torch.empty(2, dtype=torch.long), None, None).shape == (2, 5)
    monkeypatch.undo()
    many = torch.rand(5, 1, 2, 3, 4)
    found = torch.func.vmap(operations.sum_distribution)(many)
    assert torch.equal(found, torch.stack([operations.sum_distribution(mass) for mass in many]))


@pytest.mark.parametrize("name", ["exact", "words, eos", "bound", "samples", "projection"])
def test_outputs_that_no_gradient_reaches(recorded, name):
    """The implementations are not called; torch hands None where a later function gives no gradient."""
    call, wanted = CALLS[name]
    forwards, _ = recorded(call)
    for found in wanted:
        operation = OPERATIONS[found]
        if not operation.differentiable:
            continue
        leaves = [fresh(value, index in operation.differentiable) for index, value in enumerate(forwards[found])]
        outputs = operation(*leaves)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        _NoGradient.apply(*outputs).backward()
        assert all(leaf.grad is None for leaf in leaves if isinstance(leaf, torch.Tensor))


class _NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *values):
        ctx.number = len(values)
        return values[0].new_zeros(())

    @staticmethod
    def backward(ctx, grad):
        return (None,) * ctx.number


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
@pytest.mark.parametrize("eos_id", [None, EOS])
def test_the_size_of_the_blocks_of_ngrams_changes_nothing(seed, monkeypatch, torch_operations, columns_at_once, eos_id):
    """Blocks down to one column: windows cross the edges of blocks."""
    logits = 2 * torch.randn(3, STEPS, VOCABULARY, dtype=torch.float64)
    whole = value_and_gradient(logits, method="bound", eos_id=eos_id)
    elements = int(columns_at_once * STEPS * 3 * 4)
    monkeypatch.setattr(bound_matches, "BLOCK_ELEMENTS", elements)
    ranges = list(column_blocks(torch.empty(STEPS, 3, COLUMNS), 4, elements))
    assert len(ranges) == -(-COLUMNS // max(1, int(columns_at_once)))
    parts = value_and_gradient(logits, method="bound", eos_id=eos_id)
    for actual, expected in zip(parts, whole, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-14)
