"""Small models and batches."""

import pytest
import torch

from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.kinds import build_model


@pytest.fixture
def build_kind(seed):
    """A float64 model with parameters large enough that every part of it matters."""

    def make(kind, layers=(1, 1), vocabulary=11, dropout=0.0, hidden=None, **more):
        sizes = ModelConfig(
            kind,
            embedding=4,
            hidden=hidden or {"lstm": 5, "transformer": 6}[kind],
            encoder_layers=layers[0],
            decoder_layers=layers[1],
            dropout=dropout,
            initial_range=0.8,
            heads=2,
            **more,
        )
        model = build_model(sizes, 9, vocabulary).double()
        if kind == "transformer":  # biases and scales start at 0 and 1
            for name, parameter in model.named_parameters():
                if parameter.dim() == 1:
                    torch.nn.init.normal_(parameter, 1.0 if name.endswith("norm.weight") else 0.0, 0.5)
        return model

    return make


@pytest.fixture(params=["lstm", "transformer"])
def build(request, build_kind):
    """Builds a model of each autoregressive kind."""
    return lambda *given, **more: build_kind(request.param, *given, **more)


@pytest.fixture
def source(seed):
    return torch.tensor([[4, 5, 6, 7, 3], [8, 3, 0, 0, 0], [7, 7, 4, 3, 0]]), torch.tensor([5, 2, 4])


@pytest.fixture
def inputs(seed):
    return torch.cat([torch.full((3, 1), 2), torch.randint(4, 11, (3, 5))], 1)
