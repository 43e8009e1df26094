"""Small models and batches."""

import pytest
import torch

from bleugrad.models.attention_lstm import AttentionLSTM
from bleugrad.models.config import ModelConfig


@pytest.fixture
def build(seed):
    """A float64 model with parameters large enough that every part of it matters."""

    def make(layers=(1, 1), vocabulary=11, dropout=0.0, hidden=5):
        sizes = ModelConfig(
            embedding=4,
            hidden=hidden,
            encoder_layers=layers[0],
            decoder_layers=layers[1],
            dropout=dropout,
            initial_range=0.8,
        )
        return AttentionLSTM(sizes, 9, vocabulary).double()

    return make


@pytest.fixture
def source(seed):
    return torch.tensor([[4, 5, 6, 7, 3], [8, 3, 0, 0, 0], [7, 7, 4, 3, 0]]), torch.tensor([5, 2, 4])


@pytest.fixture
def inputs(seed):
    return torch.cat([torch.full((3, 1), 2), torch.randint(4, 11, (3, 5))], 1)
