"""From logits to match probabilities: plain autograd is the oracle, for values and for the hand-written backward."""

import pytest
import torch

from bleugrad.backends import dispatch
from bleugrad.backends.torch import row_probabilities as blocks
from bleugrad.outputs.rows import Rows, TokenProbabilities


def match_probabilities(logits, ids, targets=None, word_start=None, sharpness=1.0):
    """As a loss asks for them."""
    return one_target(Rows(logits, sharpness).token_probabilities, ids, targets, word_start)


def by_operator(logits, ids, targets=None, word_start=None, sharpness=1.0):
    """The operator of compilers."""

    def call(*asked):
        return torch.ops.bleugrad.row_probabilities(logits, *asked, sharpness, False)[:4]

    return one_target(call, ids, targets, word_start)


def one_target(call, ids, targets, word_start):
    """With one target per position, (B, T)."""
    found = TokenProbabilities(*call(ids, None if targets is None else targets[..., None], word_start))
    return found if targets is None else found._replace(target_log_probs=found.target_log_probs.squeeze(-1))


FORMS = {"output": match_probabilities, "operator": by_operator}
# (B, T, V, L)
SHAPES = [(1, 1, 1, 1), (1, 1, 9, 4), (1, 7, 2, 3), (3, 1, 5, 8), (2, 6, 50, 7), (4, 9, 13, 20)]
# Relative to the largest entry: rounding of the compute type, then of the type the gradient is returned in.
PRECISION = {
    torch.float64: (1e-15, 1e-14),
    torch.float32: (5e-7, 2e-6),
    torch.bfloat16: (5e-7, 2**-8),
    torch.float16: (5e-7, 2**-10),
}


def plain(logits, ids, targets=None, word_start=None, sharpness=1.0):
    """The same by torch alone, every operation recorded, in float32 or wider."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    probs, log_probs = (logits * sharpness).softmax(-1), logits.log_softmax(-1)
    matched = probs.gather(2, ids[:, None, :].expand(-1, logits.shape[1], -1))
    nothing = matched.new_empty(0)
    return (
        matched,
        nothing if targets is None else log_probs.gather(2, targets[..., None]).squeeze(-1),
        nothing if word_start is None else (probs * word_start).sum(-1),
        nothing if targets is None else log_probs.mean(-1),
    )


ASKED = {"probabilities": 1, "targets": 2, "word starts": 3}  # how many of the inputs below, the others being None
OUTPUTS = ("probabilities", "targets", "word starts", "means")


def draw(shape, dtype=torch.float64, scale=2.0, asked="word starts"):
    """Logits, and the other arguments: ids, and what more is asked for."""
    batch, steps, vocabulary, columns = shape
    logits = (torch.randn(batch, steps, vocabulary, dtype=torch.float64) * scale).to(dtype)
    ids, targets = torch.randint(vocabulary, (batch, columns)), torch.randint(vocabulary, (batch, steps))
    starts = torch.rand(vocabulary) < 0.5
    return logits, [x if index < ASKED[asked] else None for index, x in enumerate((ids, targets, starts))]


def draw_cotangents(logits, inputs):
    """For each output of `plain`."""
    dtype = torch.promote_types(logits.dtype, torch.float32)
    rows = logits.shape[:2]
    return [torch.randn(size, dtype=dtype) for size in ((*rows, inputs[0].shape[1]), rows, rows, rows)]


def pull_back(outputs, cotangents):
    """The sum whose gradient the cotangents stand for, of the outputs that were asked for."""
    used = zip(outputs, cotangents, strict=True)
    return sum((output * cotangent).sum() for output, cotangent in used if output.numel())


def differentiate(form, logits, inputs, cotangents):
    """Outputs and the gradient of the logits under fixed cotangents of the outputs."""
    logits = logits.detach().requires_grad_()
    outputs = form(logits, *inputs)
    pull_back(outputs, cotangents).backward()
    return *(output.detach() for output in outputs), logits.grad


def assert_close(actual, expected, relative, label=""):
    """Within `relative` of the largest entry of `expected`, and of the same shape and dtype."""
    scale = expected.abs().max().item() if expected.numel() else 0.0
    torch.testing.assert_close(
        actual, expected, rtol=0, atol=relative * max(scale, 1e-30), msg=lambda m: f"{label}: {m}"
    )


@pytest.mark.parametrize("dtype", PRECISION, ids=str)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sharpness", [1.0, 1.5, 2.0])
def test_values_and_gradients_are_those_of_plain_autograd(seed, form, asked, dtype, sharpness):
    for shape in SHAPES:
        logits, inputs = draw(shape, dtype, asked=asked)
        inputs.append(sharpness)
        cotangents = draw_cotangents(logits, inputs)
        *found, grad = differentiate(FORMS[form], logits, inputs, cotangents)
        *expected, expected_grad = differentiate(plain, logits, inputs, cotangents)
        for name, actual, wanted in zip(OUTPUTS, found, expected, strict=True):
            assert_close(actual, wanted, PRECISION[dtype][0], f"{name} {shape}")
        if shape[2] == 1:  # the terms of the gradient cancel
            expected_grad, grad = expected_grad + 1, grad + 1
        assert_close(grad, expected_grad, PRECISION[dtype][1], f"gradient {shape}")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("sharpness", [1.0, 0.5, 2.0])
def test_gradcheck(seed, form, asked, sharpness):
    logits, inputs = draw((2, 3, 5, 6), asked=asked)
    inputs.append(sharpness)

    def call(x):
        return [output for output in FORMS[form](x, *inputs) if output.numel()]

    assert torch.autograd.gradcheck(call, (logits.requires_grad_(),), atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("used", range(4), ids=OUTPUTS)
def test_one_output_alone(seed, form, used):
    """The others' cotangents are then zero, not garbage."""
    logits, inputs = draw((2, 5, 11, 4))
    grads = []
    for call in (plain, FORMS[form]):
        x = logits.clone().requires_grad_()
        call(x, *inputs)[used].pow(2).sum().backward()
        grads.append(x.grad)
    assert_close(grads[1], grads[0], 1e-14)


@pytest.mark.parametrize("dtype", PRECISION, ids=str)
@pytest.mark.parametrize("asked", ASKED)
def test_a_second_backward_pass_gives_the_gradient_of_the_first(seed, asked, dtype):
    """The first changes neither the logits nor what it keeps."""
    logits, inputs = draw((3, 4, 17, 6), dtype, asked=asked)
    logits.requires_grad_()
    loss = sum((output**2).sum() for output in match_probabilities(logits, *inputs) if output.numel())
    loss.backward(retain_graph=True)
    first = logits.grad
    kept = first.clone()
    logits.grad = None
    for _ in range(2):
        loss.backward(retain_graph=True)
        assert_close(logits.grad, kept, PRECISION[dtype][1])
        assert torch.equal(first, kept)  # and the first gradient is left alone
        logits.grad = None


def test_gradients_accumulate(seed):
    """A gradient that already exists, and logits that reach the loss on two ways."""
    logits, inputs = draw((2, 4, 9, 5))
    cotangents = draw_cotangents(logits, inputs)
    once = differentiate(match_probabilities, logits, inputs, cotangents)[-1]
    leaf = logits.clone().requires_grad_()
    for _ in range(2):
        (pull_back(match_probabilities(leaf * 1, *inputs), cotangents) + leaf.sum()).backward()
    assert_close(leaf.grad, 2 * once + 2, 1e-14)


LAYOUTS = {
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "vocabulary first": lambda x: x.movedim(2, 0).contiguous().movedim(0, 2),
    "every other": lambda x: torch.stack([x, x + 7], 3).flatten(2)[..., ::2],
    "part of a larger one": lambda x: torch.nn.functional.pad(x, (3, 2, 1, 1), value=9.0)[:, 1:-1, 3:-2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("form", FORMS)
def test_logits_need_not_be_contiguous(seed, form, asked, layout):
    logits, inputs = draw((3, 5, 12, 7), asked=asked)
    cotangents = draw_cotangents(logits, inputs)
    strided = LAYOUTS[layout](logits)
    assert not strided.is_contiguous()
    assert torch.equal(strided, logits)
    before = strided.clone()
    found = differentiate(FORMS[form], strided, inputs, cotangents)
    for actual, expected in zip(found, differentiate(plain, logits, inputs, cotangents), strict=True):
        assert_close(actual, expected, 1e-14)
    assert torch.equal(strided, before)


@pytest.mark.parametrize("form", FORMS)
def test_logits_may_be_expanded(seed, form):
    """All sentences share one memory; their gradients add up."""
    logits, (ids, targets, starts) = draw((1, 4, 6, 5))
    inputs = ids.expand(3, -1), targets.expand(3, -1), starts
    cotangents = draw_cotangents(logits.expand(3, -1, -1), inputs)
    found, expected = (
        differentiate(lambda x, *rest, f=f: f(x.expand(3, -1, -1), *rest), logits, inputs, cotangents)
        for f in (FORMS[form], plain)
    )
    assert_close(found[-1], expected[-1], 1e-14)


@pytest.mark.parametrize("dtype", PRECISION, ids=str)
def test_without_gradients_the_values_are_the_same(seed, dtype):
    logits, inputs = draw((3, 5, 40, 6), dtype)
    wanted = match_probabilities(logits.clone().requires_grad_(), *inputs)
    with torch.no_grad():
        unwanted = match_probabilities(logits.clone().requires_grad_(), *inputs)
    for found in (unwanted, match_probabilities(logits, *inputs)):
        for actual, expected in zip(found, wanted, strict=True):
            assert not actual.requires_grad
            assert_close(actual, expected.detach(), PRECISION[dtype][0])


@pytest.mark.parametrize("elements", [1, 13, 2 * 13, 5 * 13 + 4, 10**9])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", PRECISION, ids=str)
def test_the_size_of_the_blocks_of_rows_changes_nothing(seed, monkeypatch, torch_operations, elements, form, dtype):
    """One row, two, five, and all rows of both sentences at a time."""
    logits, inputs = draw((2, 9, 13, 6), dtype)
    cotangents = draw_cotangents(logits, inputs)
    expected = differentiate(FORMS[form], logits, inputs, cotangents)
    monkeypatch.setitem(blocks.BLOCK_ELEMENTS, "cpu", elements)
    assert len(list(blocks.row_blocks(logits))) == {1: 18, 13: 18, 26: 10, 69: 4, 10**9: 1}[elements]
    found = differentiate(FORMS[form], logits, inputs, cotangents)
    for actual, wanted in zip(found, expected, strict=True):
        assert_close(actual, wanted, PRECISION[dtype][1])


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "torch"])
@pytest.mark.parametrize("dtype", PRECISION, ids=str)
@pytest.mark.parametrize("sharpness", [1.0, 1.5, 2.0])
def test_in_place_the_gradient_takes_the_memory_of_the_logits(seed, request, kernels, dtype, sharpness):
    if not kernels:
        request.getfixturevalue("torch_operations")
    logits, (ids, targets, starts) = draw((3, 5, 40, 6), dtype)
    cotangents = draw_cotangents(logits, (ids, targets, starts))
    *_, expected = differentiate(match_probabilities, logits, (ids, targets, starts, sharpness), cotangents)
    leaf = logits.clone().requires_grad_()
    computed = leaf * 1
    computed.retain_grad()
    output = Rows(computed, sharpness).overwriting()
    pull_back(one_target(output.token_probabilities, ids, targets, starts), cotangents).backward()
    assert_close(leaf.grad, expected, PRECISION[dtype][1])
    assert_close(computed.detach(), expected, PRECISION[dtype][1])


def test_overwritten_logits_are_not_used_again(seed):
    """Neither by a second backward pass nor by another function that needs them."""
    logits, (ids, targets, starts) = draw((2, 3, 7, 4))
    leaf = logits.clone().requires_grad_()
    computed = leaf * 1
    value = Rows(computed).overwriting().token_probabilities(ids, targets[..., None], starts).match_probs.sum()
    squares = (computed**2).sum()
    value.backward(retain_graph=True)
    for later in (value, squares):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            later.backward()


def test_compiled_graphs_do_not_overwrite(seed):
    logits, (ids, _, starts) = draw((2, 3, 7, 4))
    leaf = logits.clone().requires_grad_()
    computed = leaf * 1
    torch.ops.bleugrad.row_probabilities(computed, ids, None, starts, 1.0, True)[0].sum().backward()
    assert torch.equal(computed, logits)
    assert dispatch.last_used()["row_probabilities"]


def test_leaves_are_not_overwritten():
    with pytest.raises(ValueError, match="logits is a leaf tensor; expected logits that a model computed"):
        Rows(torch.zeros(1, 2, 3, requires_grad=True)).overwriting()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_log_probabilities_of_tokens_whose_probability_underflows(seed, form, dtype):
    """Logits a thousand apart: p is 0, log p is -2000, and its gradient is that of log_softmax."""
    logits, inputs = draw((4, 8, 15, 5), dtype, scale=1e3)
    cotangents = draw_cotangents(logits, inputs)
    matched, log_probs, opening, _, grad = differentiate(FORMS[form], logits, inputs, cotangents)
    expected = differentiate(plain, logits, inputs, cotangents)
    assert (logits.softmax(-1).gather(2, inputs[1][..., None]) == 0).any()
    torch.testing.assert_close(log_probs, expected[1], rtol=PRECISION[dtype][0], atol=0)
    assert_close(matched, expected[0], PRECISION[dtype][0])
    assert_close(opening, expected[2], PRECISION[dtype][0])
    assert_close(grad, expected[4], PRECISION[dtype][1])


@pytest.mark.parametrize("form", FORMS)
def test_small_log_probabilities_have_the_precision_of_the_logits(form):
    """p from 1e-26 to 1e-48 in float32."""
    gap = torch.linspace(60, 110, 201)
    logits = torch.stack([torch.zeros_like(gap), gap], -1)[None]
    ids, targets = torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 201, dtype=torch.long)
    for leaf in (logits, logits.clone().requires_grad_()):
        log_probs = FORMS[form](leaf, ids, targets)[1]
        torch.testing.assert_close(log_probs.detach(), -gap[None], rtol=1e-6, atol=0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("asked", "columns"), [*((asked, 3) for asked in ASKED), ("targets", 0), ("word starts", 0)])
def test_a_row_without_a_softmax_has_gradient_zero(seed, form, asked, columns):
    """NaN logits pass only where they do not count; with zero cotangents they must not spread."""
    logits, inputs = draw((2, 4, 6, columns), asked=asked)
    clean = logits.clone()
    logits[0, 1, 2], logits[1, 3], logits[1, 0, 5] = torch.nan, -torch.inf, torch.inf
    broken = torch.zeros(2, 4, dtype=torch.bool)
    broken[0, 1] = broken[1, 3] = broken[1, 0] = True
    cotangents = [torch.where(broken.view(2, 4, *(1,) * (c.dim() - 2)), 0, c) for c in draw_cotangents(logits, inputs)]
    grads = [differentiate(FORMS[form], values, inputs, cotangents)[-1] for values in (logits, clean)]
    assert (grads[0][broken] == 0).all()
    assert_close(grads[0], grads[1], 1e-14)
