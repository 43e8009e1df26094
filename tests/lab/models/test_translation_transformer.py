from functools import partial

import pytest
import torch
import torch.nn.functional as F

from bleugrad.lab.errors import UsageError
from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.models.transformer import attend
from tests.lab.models import naive_transformer as naive
from tests.lab.models.naive import rows_of

LAYERS = [(1, 1), (2, 2), (1, 3)]
EXACT = {"rtol": 1e-11, "atol": 1e-11}


@pytest.fixture
def build(build_kind):
    return partial(build_kind, "transformer")


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("tied", ["none", "output"])
def test_equals_the_definition(build, source, inputs, layers, tied):
    model = build(layers, tied=tied)
    found = model.hidden_states(*source, inputs)
    expected = [naive.hidden_states(model, *pair) for pair in zip(rows_of(source), inputs.tolist(), strict=True)]
    torch.testing.assert_close(found, torch.stack(expected), **EXACT)
    matrix = model.target_embedding.weight if tied == "output" else model.output.weight
    torch.testing.assert_close(model(*source, inputs), F.linear(found, matrix, model.output.bias))


@pytest.mark.parametrize("layers", LAYERS)
def test_gradients_are_those_of_the_definition(build, source, inputs, layers):
    model = build(layers)
    used = [parameter for name, parameter in model.named_parameters() if not name.startswith("output")]
    weights = torch.randn(3, 6, 6, dtype=torch.float64)
    found = torch.autograd.grad((model.hidden_states(*source, inputs) * weights).sum(), used)
    pairs = zip(rows_of(source), inputs.tolist(), strict=True)
    total = sum((naive.hidden_states(model, *pair) * weights[row]).sum() for row, pair in enumerate(pairs))
    torch.testing.assert_close(found, torch.autograd.grad(total, used), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("layers", LAYERS)
def test_dropout_multiplies_embeddings_and_what_each_part_adds(build, source, inputs, layers):
    model = build(layers, dropout=0.5)
    memory = model.eval().encode(*source)
    noise = model.train().draw_noise(3, 8)
    assert sorted(noise.factors.unique().tolist()) == [0, 2]
    found = model.decode(memory, inputs, noise)
    for row, ids in enumerate(rows_of(source)):
        expected = naive.hidden_states(model, ids, inputs[row].tolist(), noise.factors[:, row, :6])
        torch.testing.assert_close(found[row], expected, **EXACT)


def test_tied_gradients_add_up(build, source, inputs):
    apart, tied = build(), build(tied="output")
    tied.load_state_dict(apart.state_dict() | {"output.weight": apart.target_embedding.weight.detach()})
    apart.output.weight.data.copy_(apart.target_embedding.weight.data)
    for model in (apart, tied):
        model(*source, inputs).square().sum().backward()
    both = apart.target_embedding.weight.grad + apart.output.weight.grad
    torch.testing.assert_close(tied.target_embedding.weight.grad, both, rtol=1e-10, atol=1e-10)


def test_one_matrix_for_everything(seed):
    config = ModelConfig("transformer", hidden=8, heads=2, tied="all")
    model = build_model(config, 11, 11)
    matrices = {id(one) for one in (model.source_embedding.weight, model.target_embedding.weight, model.output.weight)}
    assert len(matrices) == 1
    with pytest.raises(ValueError, match="source_size is 9 and target_size is 11; expected equal sizes"):
        build_model(config, 9, 11)
    with pytest.raises(UsageError, match="tied is 'all' with kind 'lstm'; expected 'none'"):
        ModelConfig(tied="all")
    with pytest.raises(UsageError, match="heads is 3; expected a divisor of hidden = 8"):
        ModelConfig("transformer", hidden=8, heads=3)


def test_bf16_autocast_is_close(build, source, inputs):
    model = build((2, 2)).float()
    expected = model(*source, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(*source, inputs)
    assert found.dtype == torch.bfloat16
    assert 0 < (found.float() - expected).abs().max() < 0.3


def test_attention_of_bfloat16_is_computed_in_float32_on_cpus(seed, monkeypatch):
    real, seen = torch.nn.functional.scaled_dot_product_attention, []

    def spy(query, *more, **options):
        seen.append(query.dtype)
        return real(query, *more, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    query, key, value = (torch.randn(2, 2, 3, 4, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        found = attend(query, key, value, None, causal=True)
    expected = real(query.double(), key.double(), value.double(), is_causal=True)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), expected, rtol=2**-8, atol=2**-8)
    found.float().sum().backward()
    assert query.grad.dtype == torch.bfloat16
    attend(*(one.double() for one in (query, key, value)), None)
    assert seen == [torch.float32, torch.float64]
