from functools import partial

import pytest
import torch
import torch.nn.functional as F

from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.lstm.model import AttentionLSTM, bfloat16_lstm_works
from tests.lab.models import naive
from tests.lab.models.naive import rows_of

LAYERS = [(1, 1), (2, 2), (1, 3)]


@pytest.fixture
def build(build_kind):
    return partial(build_kind, "lstm")


@pytest.mark.parametrize("layers", LAYERS)
def test_equals_the_definition(build, source, inputs, layers):
    model = build(layers)
    found = model.hidden_states(*source, inputs)
    expected = [naive.hidden_states(model, *pair) for pair in zip(rows_of(source), inputs.tolist(), strict=True)]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model(*source, inputs), F.linear(found, model.output.weight, model.output.bias))


@pytest.mark.parametrize("layers", LAYERS)
def test_dropout_multiplies_embeddings_and_what_layers_pass_on(build, source, inputs, layers):
    model = build(layers, dropout=0.5)
    memory = model.eval().encode(*source)
    noise = model.train().draw_noise(3, 6)
    found = model.decode(memory, inputs, noise)
    for row, ids in enumerate(rows_of(source)):
        expected = naive.hidden_states(model, ids, inputs[row].tolist(), noise.tokens[:, row], noise.layers[:, :, row])
        torch.testing.assert_close(found[row], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layers", LAYERS)
def test_gradients_are_those_of_the_definition(build, source, inputs, layers):
    model = build(layers)
    weights = torch.randn(3, 6, 5, dtype=torch.float64)
    found = torch.autograd.grad((model.hidden_states(*source, inputs) * weights).sum(), used_parameters(model))
    pairs = zip(rows_of(source), inputs.tolist(), strict=True)
    total = sum((naive.hidden_states(model, *pair) * weights[row]).sum() for row, pair in enumerate(pairs))
    torch.testing.assert_close(found, torch.autograd.grad(total, used_parameters(model)), rtol=1e-9, atol=1e-11)


def used_parameters(model):
    return [parameter for name, parameter in model.named_parameters() if not name.startswith("output")]


def test_noise_is_drawn_in_training_mode_only(build, source, inputs):
    model = build(dropout=0.5)
    assert model.eval().draw_noise(3, 6).layers is None
    torch.testing.assert_close(model(*source, inputs), model(*source, inputs), rtol=0, atol=0)
    noise = model.train().draw_noise(200, 6)
    assert sorted(noise.layers.unique().tolist()) == [0, 2]
    assert 0.45 < (noise.layers > 0).double().mean() < 0.55
    assert (model(*source, inputs) - model(*source, inputs)).abs().max() > 1e-3


def test_parameters_start_in_the_range(seed):
    model = AttentionLSTM(ModelConfig(embedding=16, hidden=16, initial_range=0.3), 50, 50)
    largest = torch.stack([parameter.abs().max() for parameter in model.parameters()])
    assert largest.max() <= 0.3
    assert largest.min() > 0.2


def test_memory_tells_its_mask(build, source):
    expected = torch.tensor([[True] * 5, [True] * 2 + [False] * 3, [True] * 4 + [False]])
    assert torch.equal(build().encode(*source).bias[:, 0] == 0, expected)


@pytest.mark.parametrize("layers", [(1, 1), (2, 2)])
def test_bf16_autocast_is_close(build, source, inputs, layers):
    model = build(layers, hidden=8).float()
    expected = model(*source, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(*source, inputs)
        loss = found.float().square().mean()
    loss.backward()
    assert found.dtype == torch.bfloat16
    assert 0 < (found.float() - expected).abs().max() < 0.1
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("layers", [(1, 1), (2, 2)])
def test_the_encoder_is_float32_where_the_cpu_has_no_bf16_lstm(build, source, monkeypatch, layers):
    monkeypatch.setattr("bleugrad.lab.models.lstm.model.bfloat16_lstm_works", lambda: False)
    model, lengths = build(layers).float(), source[1]
    embedded = model.source_embedding(source[0])
    expected = model.encoder(embedded, lengths)
    with torch.autocast("cpu", torch.bfloat16):
        found = model.encoder(embedded, lengths)
    assert all(map(torch.equal, found, expected))


def test_the_probe_for_bf16_draws_no_random_numbers():
    before = torch.get_rng_state()
    assert bfloat16_lstm_works.__wrapped__() in (True, False)
    assert torch.equal(torch.get_rng_state(), before)


def test_bad_sources_are_named(build):
    model = build()
    ids = torch.tensor([[4, 3]])
    with pytest.raises(ValueError, match=r"source is torch.float32 \(1, 2\); expected token ids"):
        model.encode(ids.float(), torch.tensor([2]))
    with pytest.raises(ValueError, match=r"source_lengths is \(2,\); expected one length per sentence \(1,\)"):
        model.encode(ids, torch.tensor([2, 2]))
    for length in (0, 3):
        with pytest.raises(ValueError, match=f"source_lengths is from {length} to {length}; expected 1 to 2"):
            model.encode(ids, torch.tensor([length]))
