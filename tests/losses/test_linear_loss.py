"""The fused loss of hidden states equals the loss of their logits, in value and in every gradient."""

import pytest
import torch

import bleugrad
from bleugrad import ExpectedBLEULoss, Projection
from bleugrad.backends.torch import projected_probabilities as module
from tests.cases import FIELDS
from tests.losses.cases import IGNORE, assert_all_close, draw_batch, gradients
from tests.references.test_long_references import run_child

METHODS = ("exact", "bound")
WIDTH, VOCABULARY = 6, 11


def draw(bias=True, dtype=torch.float64, batch=3, steps=8, scale=1.0):
    """Hidden (B, T, H), weight (V, H), bias (V,) or None, labels (B, T)."""
    hidden = torch.randn(batch, steps, WIDTH, dtype=torch.float64) * scale
    weight = torch.randn(VOCABULARY, WIDTH, dtype=torch.float64)
    offset = torch.randn(VOCABULARY, dtype=torch.float64)
    _, labels = draw_batch(batch, steps, VOCABULARY)
    return hidden.to(dtype), weight.to(dtype), offset.to(dtype) if bias else None, labels


def fused(labels, references=None, mask=None, **options):
    loss = ExpectedBLEULoss(**options)

    def call(hidden, weight, bias):
        return loss(Projection(hidden, weight, bias), labels, references=references, mask=mask)

    return call


def plain(labels, references=None, mask=None, **options):
    loss = ExpectedBLEULoss(**options)

    def call(hidden, weight, bias):
        return loss(torch.nn.functional.linear(hidden, weight, bias), labels, references=references, mask=mask)

    return call


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("weight", [0.0, 0.4])
@pytest.mark.parametrize("level", ["corpus", "sentence"])
def test_value_and_gradients_are_those_of_the_plain_path(seed, bias, method, eos_id, weight, level):
    *tensors, labels = draw(bias)
    options = {"method": method, "eos_id": eos_id, "level": level, "cross_entropy_weight": weight}
    found = gradients(fused(labels, **options), *tensors)
    assert all(grad.abs().max() > 1e-6 for grad in found[1:] if grad is not None)
    assert_all_close(found, gradients(plain(labels, **options), *tensors), 1e-13)


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_reductions_masks_and_references(seed, reduction):
    *tensors, labels = draw()
    mask = torch.rand(labels.shape) < 0.6
    references = [[[1, 2, 3], [3, 4]], [[5]], [[6, 6, 6, 7, 8, 9, 10, 0, 1, 2]]]
    options = {"level": "sentence", "reduction": reduction, "cross_entropy_weight": 0.3}
    for arguments in ({"references": references}, {"references": references, "mask": mask}):
        found = gradients(fused(labels, **arguments, **options), *tensors)
        assert_all_close(found, gradients(plain(labels, **arguments, **options), *tensors), 1e-13)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("bias", [False, True])
def test_expected_bleu(seed, method, eos_id, bias):
    """Every field of the result, and the gradients of the value and of the certified upper end."""
    hidden, weight, offset, _ = draw(bias)
    references = [[[1, 2, 1, 2], [3, 4]], [[5]], [[6, 6, 6, 7]]]
    mask = torch.rand(hidden.shape[:2]) < 0.8
    options = {"method": method, "eos_id": eos_id, "level": "sentence", "max_order": 3, "smoothing": 0.5, "mask": mask}

    def by_hidden(hidden, weight, offset):
        return bleugrad.expected_bleu(Projection(hidden, weight, offset), references, **options)

    def by_logits(hidden, weight, offset):
        logits = torch.nn.functional.linear(hidden, weight, offset)
        return bleugrad.expected_bleu(logits, references, **options)

    first, second = (call(hidden, weight, offset) for call in (by_hidden, by_logits))
    for field in FIELDS:
        torch.testing.assert_close(getattr(first, field), getattr(second, field), rtol=0, atol=1e-13)
    for field in ("value", "upper"):
        found, wanted = (
            gradients(lambda *tensors, call=call: getattr(call(*tensors), field), hidden, weight, offset)  # noqa: B023
            for call in (by_hidden, by_logits)
        )
        assert_all_close(found, wanted, 1e-13)


@pytest.mark.parametrize("rows", [1, 2, 7, 23, 10**6])
@pytest.mark.parametrize("bias", [False, True])
def test_the_size_of_the_chunks_changes_nothing(seed, monkeypatch, rows, bias):
    """At most one, two, ... of the 24 rows at a time."""
    *tensors, labels = draw(bias)
    tensors[0][0, 6:] = 0.5
    wanted = gradients(plain(labels, cross_entropy_weight=0.4), *tensors)
    wide = torch.nn.functional.pad(tensors[1], (0, 0, 0, 500))  # a vocabulary larger than the hidden states
    offset = None if tensors[2] is None else torch.nn.functional.pad(tensors[2], (0, 500), value=-40.0)
    wide_wanted = gradients(plain(labels, cross_entropy_weight=0.4), tensors[0], wide, offset)
    monkeypatch.setattr(module, "LEAST_ROWS", rows)
    heights = [logits.shape[0] * logits.shape[1] for _, logits in module._logit_chunks(tensors[0], wide, offset)]
    assert max(heights) <= rows
    assert sum(heights) == 24
    assert_all_close(gradients(fused(labels, cross_entropy_weight=0.4), *tensors), wanted, 1e-13)
    assert_all_close(gradients(fused(labels, cross_entropy_weight=0.4), tensors[0], wide, offset), wide_wanted, 1e-13)


@pytest.mark.parametrize("frozen", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)])
def test_frozen_inputs_get_no_gradient_and_the_others_theirs(seed, frozen):
    *tensors, labels = draw()
    leaves = [t.clone().requires_grad_(index not in frozen) for index, t in enumerate(tensors)]
    fused(labels, cross_entropy_weight=0.4)(*leaves).backward()
    wanted = gradients(plain(labels, cross_entropy_weight=0.4), *tensors)[1:]
    for index, (leaf, grad) in enumerate(zip(leaves, wanted, strict=True)):
        if index in frozen:
            assert leaf.grad is None
        else:
            torch.testing.assert_close(leaf.grad, grad, rtol=0, atol=1e-13)


def test_no_gradient_at_all(seed):
    *tensors, labels = draw()
    wanted = fused(labels, cross_entropy_weight=0.4)(*(t.clone().requires_grad_() for t in tensors))
    for leaves in (tensors, [t.clone().requires_grad_() for t in tensors]):
        with torch.no_grad():
            value = fused(labels, cross_entropy_weight=0.4)(*leaves)
        assert not value.requires_grad
        torch.testing.assert_close(value, wanted.detach(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("method", METHODS)
def test_gradcheck(seed, method):
    *tensors, labels = draw(batch=2, steps=4)
    leaves = [t.requires_grad_() for t in tensors]
    call = fused(labels, method=method, eos_id=0, max_order=2, cross_entropy_weight=0.3)
    assert torch.autograd.gradcheck(call, leaves, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding(seed, dtype):
    """Against float64 on the same numbers, the fused path is no worse than twice the plain one, and within rounding."""
    *tensors, labels = draw(dtype=dtype, batch=6, steps=12)
    labels = labels.where(labels == IGNORE, labels % 4)
    options = {"cross_entropy_weight": 0.1}
    exact = gradients(fused(labels, **options), *(t.double() for t in tensors))
    unit = torch.finfo(dtype).eps
    for rough, usual, fine in zip(
        gradients(fused(labels, **options), *tensors), gradients(plain(labels, **options), *tensors), exact, strict=True
    ):
        error, usual_error = ((x.double() - fine).norm() / fine.norm() for x in (rough, usual))
        assert error < 4 * unit + 1e-6
        assert error < 2 * usual_error + unit
    assert all(grad.dtype == dtype for grad in gradients(fused(labels, **options), *tensors)[1:])


@pytest.mark.parametrize("backward_inside", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 0])
def test_autocast_changes_nothing(seed, backward_inside, method, eos_id):
    *tensors, labels = draw(dtype=torch.float32)
    call = fused(labels, method=method, eos_id=eos_id, cross_entropy_weight=0.4)
    wanted = gradients(call, *tensors)
    leaves = [t.clone().requires_grad_() for t in tensors]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = call(*leaves)
        if backward_inside:
            value.backward()
    if not backward_inside:
        value.backward()
    assert_all_close([value.detach(), *(leaf.grad for leaf in leaves)], wanted, 0.0)


def test_hidden_states_in_half_precision_and_weights_in_float32(seed):
    """What autocast hands over: each gradient in its own type."""
    hidden, weight, bias, labels = draw(dtype=torch.float32)
    found = gradients(fused(labels), hidden.bfloat16(), weight, bias)
    wanted = gradients(plain(labels), hidden.bfloat16().float(), weight, bias)
    assert [grad.dtype for grad in found[1:]] == [torch.bfloat16, torch.float32, torch.float32]
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-6, atol=0)
    torch.testing.assert_close(found[1].float(), wanted[1], rtol=2**-8, atol=1e-8)
    assert_all_close(found[2:], wanted[2:], 1e-7)


def test_a_second_backward_pass(seed):
    *tensors, labels = draw()
    leaves = [t.clone().requires_grad_() for t in tensors]
    value = fused(labels, cross_entropy_weight=0.4)(*leaves)
    first = torch.autograd.grad(value, leaves, retain_graph=True)
    kept = [grad.clone() for grad in first]
    second = torch.autograd.grad(value, leaves)
    assert_all_close(second, kept, 1e-15)
    assert_all_close(first, kept, 0.0)


@pytest.mark.parametrize("filler", [torch.nan, torch.inf, -torch.inf, 1e30])
@pytest.mark.parametrize("weight", [0.0, 0.4])
@pytest.mark.parametrize("rows", [1, 64])
def test_hidden_states_that_do_not_count_may_hold_anything(seed, monkeypatch, filler, weight, rows):
    """Ignored positions are padding: NaN there reaches neither the value nor any gradient."""
    monkeypatch.setattr(module, "LEAST_ROWS", rows)
    hidden, head, bias, labels = draw()
    ignored = labels == IGNORE
    assert ignored.any()
    clean, dirty = (torch.where(ignored[..., None], x, hidden) for x in (0.0, filler))
    call = fused(labels, cross_entropy_weight=weight)
    found, wanted = gradients(call, dirty, head, bias), gradients(call, clean, head, bias)
    assert_all_close(found, wanted, 1e-13)
    assert (found[1][ignored] == 0).all()


def test_hidden_states_need_not_be_contiguous(seed):
    hidden, weight, bias, labels = draw()
    wanted = gradients(plain(labels, cross_entropy_weight=0.4), hidden, weight, bias)
    strided = hidden.transpose(0, 1).contiguous().transpose(0, 1)
    turned = weight.t().contiguous().t()
    assert not strided.is_contiguous()
    assert not turned.is_contiguous()
    leaves = [strided.requires_grad_(), turned.requires_grad_(), bias.requires_grad_()]
    value = fused(labels, cross_entropy_weight=0.4)(*leaves)
    value.backward()
    assert_all_close([value.detach(), *(leaf.grad for leaf in leaves)], wanted, 1e-13)


def test_logits_far_apart(seed):
    """Log-probabilities of -1000: the normaliser is kept as a logarithm."""
    *tensors, labels = draw(scale=300.0)
    found = gradients(fused(labels, cross_entropy_weight=1.0), *tensors)
    wanted = gradients(plain(labels, cross_entropy_weight=1.0), *tensors)
    assert wanted[0] > 100
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12 * b.abs().max().item())


@pytest.mark.parametrize("shape", [(0, 5), (3, 0)])
def test_empty_batches(shape):
    labels = torch.zeros(shape, dtype=torch.long)
    weight = torch.randn(VOCABULARY, WIDTH)
    value, *grads = gradients(fused(labels, cross_entropy_weight=1.0), torch.zeros(*shape, WIDTH), weight, weight[:, 0])
    assert value.isfinite()
    assert all((grad == 0).all() for grad in grads)


def test_differentiating_twice_is_refused(seed):
    *tensors, labels = draw()
    leaves = [t.requires_grad_() for t in tensors]
    grads = torch.autograd.grad(fused(labels)(*leaves), leaves, create_graph=True)
    for grad in grads:
        with pytest.raises(RuntimeError, match=r"(?i)differentiate twice|double backward|no autograd formula"):
            torch.autograd.grad(grad.pow(2).sum(), leaves, retain_graph=True, allow_unused=True)


@pytest.mark.parametrize("index", range(3), ids=["hidden", "weight", "bias"])
@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev, torch.func.vmap])
def test_transforms_of_torch_func_are_refused_with_advice(seed, index, transform):
    *tensors, labels = draw()
    name = ("hidden", "weight", "bias")[index]

    def call(part):
        return fused(labels)(*tensors[:index], part, *tensors[index + 1 :])

    part = tensors[index]
    with pytest.raises(RuntimeError, match=rf"{name} .*torch\.func.*backward"):
        transform(call)(part.expand(2, *part.shape) if transform is torch.func.vmap else part)


def test_the_logits_of_the_batch_never_exist():
    """(16, 256) positions over 32,000 words: the logits would take 500 MB."""
    _, growth = run_child("""
loss = bleugrad.ExpectedBLEULoss(cross_entropy_weight=0.1)
small = bleugrad.Projection(torch.randn(2, 6, 8, requires_grad=True), torch.randn(50, 8, requires_grad=True))
loss(small, draw(50, 2, 6)).backward()
hidden, weight = torch.randn(16, 256, 64, requires_grad=True), torch.randn(32000, 64, requires_grad=True)
before = peak()
loss(bleugrad.Projection(hidden, weight), draw(32000, 16, 256)).backward()
answer = None
""")
    assert growth < 150
