"""Match probabilities from hidden states: plain autograd on the whole logits is the oracle."""

from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bleugrad.backends.torch import projected_probabilities as module
from bleugrad.outputs.rows import Projection
from tests.outputs.test_rows import ASKED, OUTPUTS, draw_cotangents, one_target, plain, pull_back

# (B, T, V, H, L)
SHAPES = [(1, 1, 1, 1, 1), (2, 3, 7, 5, 4), (3, 1, 40, 2, 9), (1, 9, 3, 8, 2), (4, 6, 13, 1, 20)]


def draw(shape, dtype=torch.float64, biased=True, asked="word starts"):
    batch, steps, vocabulary, width, columns = shape
    hidden, weight, bias = (
        torch.randn(size, dtype=torch.float64).to(dtype).requires_grad_()
        for size in ((batch, steps, width), (vocabulary, width), (vocabulary,))
    )
    ids, targets = torch.randint(vocabulary, (batch, columns)), torch.randint(vocabulary, (batch, steps))
    starts = torch.rand(vocabulary) < 0.5
    more = [x if index < ASKED[asked] else None for index, x in enumerate((ids, targets, starts))]
    return hidden, weight, bias if biased else None, *more


def linear_match_probabilities(hidden, weight, bias, *inputs, sharpness=1.0):
    return one_target(Projection(hidden, weight, bias, sharpness).token_probabilities, *inputs)


def through_logits(hidden, weight, bias, *inputs, sharpness=1.0):
    return plain(torch.nn.functional.linear(hidden, weight, bias), *inputs, sharpness)


def differentiate(form, arguments, cotangents):
    """Outputs, and gradients of hidden, weight and bias under fixed cotangents."""
    outputs = form(*arguments)
    leaves = [leaf for leaf in arguments[:3] if leaf is not None]
    grads = torch.autograd.grad(pull_back(outputs, cotangents), leaves)
    return [*(output.detach() for output in outputs), *grads]


def compare(arguments, atol=1e-13, sharpness=1.0):
    cotangents = draw_cotangents(arguments[0], arguments[3:])
    found, wanted = (
        differentiate(partial(form, sharpness=sharpness), arguments, cotangents)
        for form in (linear_match_probabilities, through_logits)
    )
    for actual, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("rows", [1, 5, 64])
def test_values_and_gradients_are_those_of_plain_autograd(seed, monkeypatch, biased, asked, rows):
    monkeypatch.setattr(module, "LEAST_ROWS", rows)
    for shape in SHAPES:
        compare(draw(shape, biased=biased, asked=asked))
        compare(draw(shape, biased=biased, asked=asked), sharpness=1.5)


@pytest.mark.parametrize("frozen", [(0,), (1,), (2,), (0, 1), (1, 2)])
@pytest.mark.parametrize("asked", ASKED)
def test_frozen_inputs(seed, frozen, asked):
    arguments = draw((2, 5, 11, 3, 4), asked=asked)
    cotangents = draw_cotangents(arguments[0], arguments[3:])
    wanted = differentiate(through_logits, arguments, cotangents)[-3:]
    leaves = [t.detach().requires_grad_(index not in frozen) for index, t in enumerate(arguments[:3])]
    pull_back(linear_match_probabilities(*leaves, *arguments[3:]), cotangents).backward()
    for index, (leaf, grad) in enumerate(zip(leaves, wanted, strict=True)):
        if index in frozen:
            assert leaf.grad is None
        else:
            torch.testing.assert_close(leaf.grad, grad, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("asked", ASKED)
def test_rounding(seed, dtype, asked):
    """The error against float64 on the same numbers: of rounded logits, and of gradients rounded at the end."""
    for shape in SHAPES[1:]:
        arguments = draw(shape, dtype, asked=asked)
        cotangents = draw_cotangents(arguments[0], arguments[3:])
        found = differentiate(linear_match_probabilities, arguments, cotangents)
        doubled = [t.detach().double().requires_grad_() for t in arguments[:3]]
        wanted = differentiate(through_logits, [*doubled, *arguments[3:]], [c.double() for c in cotangents])
        assert [t.dtype for t in found] == [torch.float32] * 4 + [dtype] * 3
        for actual, expected in zip(found, wanted, strict=True):
            if expected.numel():
                assert (actual.double() - expected).norm() / expected.norm() < 8 * torch.finfo(dtype).eps


class Products(TorchDispatchMode):
    """``dtypes``: those of the factors of all matrix products."""

    def __init__(self):
        super().__init__()
        self.dtypes = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(part in function._schema.name for part in ("mm", "matmul")):  # addmm_ and baddbmm_ add to the first
            self.dtypes |= {one.dtype for one in args[-2:]}
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("frozen", [False, True])
def test_products_of_half_precision_weights_are_not_widened(seed, monkeypatch, dtype, frozen):
    monkeypatch.setattr(module, "LEAST_ROWS", 2)
    hidden, weight, bias, ids, targets, _ = (one.detach() for one in draw((2, 6, 40, 3, 4), dtype))
    inputs = (hidden, weight, bias, ids, targets[..., None], None, 1.0, frozen)
    with Products() as products:
        outputs = module.forward(True, *inputs)[0]
        grads = [torch.ones_like(one) for one in outputs[:2]]
        needs = (True, not frozen, not frozen)
        found = module.backward(None, needs, (*grads, *[None] * 4), outputs, inputs)
    assert products.dtypes == {dtype}
    assert [one.dtype for one in found if one is not None] == [dtype] * sum(needs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_chunks_are_summed_in_float32(seed, monkeypatch, dtype):
    """200 chunks of one row, whose gradients are below the normal range of float16; of tokens that are not gathered."""
    monkeypatch.setattr(module, "LEAST_ROWS", 1)
    hidden, weight, bias, ids, *_ = draw((1, 200, 400, 1, 3), dtype, asked="probabilities")
    hidden = (hidden.detach().abs() + 1).requires_grad_()
    arguments = hidden, weight, bias, ids, None, None
    cotangents = [torch.full((1, 200, 3), 0.02), *[torch.empty(0)] * 3]
    found = differentiate(linear_match_probabilities, arguments, cotangents)[-2]
    doubled = [t.detach().double().requires_grad_() for t in arguments[:3]]
    wanted = differentiate(through_logits, [*doubled, ids, None, None], [c.double() for c in cotangents])[-2]
    found[ids[0]], wanted[ids[0]] = 0, 0
    assert (found.double() - wanted).norm() / wanted.norm() < 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("asked", ASKED)
def test_gradcheck(seed, asked):
    *leaves, ids, targets, starts = draw((2, 3, 5, 4, 6), asked=asked)

    def call(*tensors):
        return [output for output in linear_match_probabilities(*tensors, ids, targets, starts) if output.numel()]

    assert torch.autograd.gradcheck(call, leaves, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("used", range(4), ids=OUTPUTS)
def test_one_output_alone(seed, used):
    arguments = draw((2, 5, 11, 3, 4))
    found, wanted = (
        torch.autograd.grad(form(*arguments)[used].pow(2).sum(), arguments[:3])
        for form in (linear_match_probabilities, through_logits)
    )
    for actual, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-13)


def test_tokens_gathered_twice_add_up(seed):
    """A reference that repeats a word, and a target that is also gathered."""
    hidden, weight, bias, _, _, starts = draw((2, 4, 6, 3, 5))
    ids, targets = torch.tensor([[1, 1, 1, 2, 1], [0, 5, 0, 5, 5]]), torch.tensor([[1, 1, 2, 2], [5, 5, 5, 5]])
    compare((hidden, weight, bias, ids, targets, starts))
