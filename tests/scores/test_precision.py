"""Rounding: float32 against float64, half precision and autocast."""

import pytest
import torch

import bleugrad
from tests.cases import FIELDS, STATISTICS
from tests.oracles import counting

BATCH, STEPS, VOCABULARY = 4, 20, 200
# float32 has 6e-8; twenty positions and products of four probabilities may lose two digits of it, not more
RELATIVE = 1e-5
RELATIVE_GRADIENT = 1e-4

METHODS = ("exact", "bound")


def realistic(kind, eos_id):
    """float32 logits, references with repeated words; peaked rows favour the reference, as after training."""
    references = torch.randint(1, 40, (BATCH, STEPS - 2))
    logits = torch.randn(BATCH, STEPS, VOCABULARY)
    if kind == "peaked":
        favoured = torch.cat([references, torch.zeros(BATCH, 2, dtype=torch.long)], 1)
        logits.scatter_add_(2, favoured[..., None], torch.full((BATCH, STEPS, 1), 7.0))
    if eos_id is not None:
        references = torch.cat([references, torch.full((BATCH, 1), eos_id)], 1)
    return logits, references


def assert_outward(rough, fine, margin=1e-5):
    """The float32 interval holds the float64 one, and is wider by little."""
    assert rough.lower.dtype == rough.upper.dtype == torch.float32
    assert (rough.lower.double() <= fine.lower).all()
    assert (rough.upper.double() >= fine.upper).all()
    for a, b in ((rough.lower, fine.lower), (rough.upper, fine.upper)):
        torch.testing.assert_close(a.double(), b, rtol=margin, atol=margin)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("kind", ["flat", "peaked"])
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
@pytest.mark.parametrize("level", ["sentence", "corpus"])
def test_float32_agrees_with_float64(seed, method, eos_id, kind, smoothing, level):
    """Relative errors, so that the tiny four-gram matches of flat rows (1e-7) must be right as well."""
    logits, references = realistic(kind, eos_id)
    options = {"method": method, "eos_id": eos_id, "smoothing": smoothing, "level": level}
    single, double = logits.clone().requires_grad_(), logits.double().requires_grad_()
    rough, fine = (bleugrad.expected_bleu(x, references, **options) for x in (single, double))
    assert_outward(rough, fine)
    for field in STATISTICS:
        a, b = getattr(rough, field), getattr(fine, field)
        assert a.dtype == torch.float32
        assert b.dtype == torch.float64
        torch.testing.assert_close(a.double(), b, rtol=RELATIVE, atol=0, msg=lambda m, field=field: f"{field}: {m}")
    rough.value.sum().backward()
    fine.value.sum().backward()
    error = (single.grad.double() - double.grad).norm() / double.grad.norm()
    assert error < RELATIVE_GRADIENT


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_computed_in_float32(seed, method, eos_id, dtype):
    logits, references = realistic("peaked", eos_id)
    half = logits.to(dtype).requires_grad_()
    single = half.detach().float().requires_grad_()
    rough, fine = (bleugrad.expected_bleu(x, references, method=method, eos_id=eos_id) for x in (half, single))
    for field in FIELDS:
        a, b = getattr(rough, field), getattr(fine, field)
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=RELATIVE, atol=0, msg=lambda m, field=field: f"{field}: {m}")
    rough.value.backward()
    fine.value.backward()
    assert half.grad.dtype == dtype
    ulp = torch.finfo(dtype).eps
    torch.testing.assert_close(half.grad, single.grad.to(dtype), rtol=ulp, atol=torch.finfo(dtype).smallest_normal)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eos_id", [None, 0])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_autocast_does_not_reach_the_computation(seed, method, eos_id, dtype):
    logits, references = realistic("peaked", eos_id)
    outside = logits.to(torch.bfloat16).to(dtype).requires_grad_()
    inside = outside.detach().clone().requires_grad_()
    options = {"method": method, "eos_id": eos_id}
    fine = bleugrad.expected_bleu(outside, references, **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = bleugrad.expected_bleu(inside, references, **options)
    for field in FIELDS:
        assert torch.equal(getattr(rough, field), getattr(fine, field)), field
    rough.value.backward()
    fine.value.backward()
    assert torch.equal(inside.grad, outside.grad)


@pytest.fixture(params=[torch.float16, torch.bfloat16, torch.float64], ids=str)
def default_dtype(request):
    torch.set_default_dtype(request.param)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("words", [2, 1000])
@pytest.mark.parametrize("length", [60, 300, 3000])
def test_bleu_counts_exactly_whatever_the_default_dtype(rng, default_dtype, length, words):
    """Shares of a half, a third, ... are summed; 60 tokens are counted by the matrices, the others by sorting."""
    pairs = rng.integers(0, words, size=(2, 2, length)).tolist()
    pairs[0][0] = pairs[1][0]  # equal: every n-gram matches
    result = bleugrad.bleu(*pairs, smoothing=0, level="sentence")
    assert result.matches.tolist() == [counting.statistics(h, [r], 4)[0] for h, r in zip(*pairs, strict=True)]
    assert result.matches[0].tolist() == [length - n for n in range(4)]
    assert result.value.dtype == torch.float64
    assert result.value[0] == 1


@pytest.mark.parametrize("stop", [1e-9, 1e-4, 0.5, 1 - 1e-4, 1 - 1e-9])
def test_float32_with_rare_and_near_certain_ends(seed, stop):
    """Survival is 1 - p(EOS), so near-certain ends leave float32 an absolute, not a relative, precision."""
    logits = torch.randn(2, 12, 30, dtype=torch.float64)
    rest = logits[..., 1:].logsumexp(-1)
    logits[..., 0] = rest + torch.tensor(stop / (1 - stop), dtype=torch.float64).log()
    logits = logits.float()
    references = torch.randint(1, 30, (2, 10))
    rough, fine = (bleugrad.expected_bleu(x, references, eos_id=0) for x in (logits, logits.double()))
    for field in ("matches", "totals", "hypothesis_lengths", "value"):
        a, b = getattr(rough, field).double(), getattr(fine, field)
        torch.testing.assert_close(a, b, rtol=RELATIVE, atol=2e-7, msg=lambda m, field=field: f"{field}: {m}")
