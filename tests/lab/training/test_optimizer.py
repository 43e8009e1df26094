import pytest
import torch

from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.training.config import OptimizerConfig
from bleugrad.lab.training.optimizer import build_optimizer


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_only_matrices_decay(seed, decay):
    """The first update of AdamW by its formula: the gradient divided by its own size, and the decay of the weight."""
    model = build_model(ModelConfig("transformer", hidden=8, heads=2, tied="output"), 9, 9)
    config = OptimizerConfig(learning_rate=0.01, weight_decay=decay, beta2=0.98)
    optimizer = build_optimizer(model, config)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    for name, value in model.named_parameters():
        grown = before[name] * (1 - 0.01 * decay) if value.dim() > 1 else before[name]
        expected = grown - 0.01 * value.grad / (value.grad.abs() + 1e-8)
        torch.testing.assert_close(value.detach(), expected, rtol=1e-4, atol=1e-6)
    assert all(group["betas"] == (0.9, 0.98) for group in optimizer.param_groups)
