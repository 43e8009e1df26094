import pytest
import torch

from bleugrad.lab.models.feeding import draw


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_shares_are_probabilities(seed, temperature):
    logits, rows = torch.randn(7), 100_000
    torch.manual_seed(1)
    tokens = draw(logits.expand(rows, -1), temperature)
    probability = torch.softmax(logits.double() / temperature, 0)
    error = (probability * (1 - probability) / rows).sqrt()
    assert ((torch.bincount(tokens, minlength=7) / rows - probability).abs() < 5 * error).all()


def test_what_has_no_probability_is_not_drawn(monkeypatch):
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    for uniform, expected in ((0.0, 1), (0.5, 3), (1.0, 3)):
        monkeypatch.setattr(
            torch, "rand", lambda shape, value=uniform, dtype=None, **_: torch.full(shape, value, dtype=dtype)
        )
        assert draw(logits).tolist() == [expected]


def test_rows_are_drawn_apart():
    logits = torch.full((3, 4), -40.0)
    logits[torch.arange(3), torch.tensor([2, 0, 3])] = 40.0
    assert draw(logits).tolist() == [2, 0, 3]
    assert draw(logits[:0]).shape == (0,)
