"""Dropout: factors of mean 1 that are independent, and nothing outside training mode."""

import pytest
import torch

from bleugrad.lab.models.dropout import Dropout, dropout_factors

NUMBER = 400_000


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.95])
def test_factors_are_independent_with_mean_one(seed, dropout):
    factors = dropout_factors((NUMBER + 3,), dropout, torch.zeros((), dtype=torch.float64))
    dropped = (factors == 0).double()
    kept = factors[factors > 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - dropout)), rtol=2e-4, atol=0)
    error = (dropout * (1 - dropout) / NUMBER) ** 0.5  # standard error of a share
    assert abs(dropped.mean() - dropout) < 5 * error + 2**-16
    for distance in (1, 2, 3, 4, 8):  # draws of the same 64 bits, and of the next
        both = (dropped[distance:] * dropped[:-distance]).mean()
        assert abs(both - dropout**2) < 5 * (dropout**2 * (1 - dropout**2) / NUMBER) ** 0.5 * 2 + 2**-15


def test_the_shape_and_type_are_those_asked_for(seed):
    factors = dropout_factors((2, 0, 3), 0.5, torch.zeros((), dtype=torch.bfloat16))
    assert factors.shape == (2, 0, 3)
    assert factors.dtype == torch.bfloat16


def test_values_and_gradients_are_multiplied_in_training_mode_only(seed):
    layer, values = Dropout(0.5), torch.ones(4, 5, requires_grad=True)
    assert layer.eval()(values) is values or torch.equal(layer(values), values)
    found = layer.train()(values)
    assert set(found.flatten().tolist()) == {0.0, 2.0}
    found.sum().backward()
    assert torch.equal(values.grad, found)
    assert torch.equal(Dropout(0.0)(values), values)
