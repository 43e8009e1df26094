"""The optimizer of the settings."""

import torch
from torch import nn

from bleugrad.lab.training.config import OptimizerConfig

BETA1 = 0.9


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Adam:
    """Adam, or AdamW with decay of the matrices only: biases and scales of normalisations have no decay."""
    parameters = list(model.parameters())
    shared = {"lr": config.learning_rate, "betas": (BETA1, config.beta2), "fused": True}
    if not config.weight_decay:
        return torch.optim.Adam(parameters, **shared)  # type: ignore[arg-type]
    groups = [
        {"params": [one for one in parameters if one.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [one for one in parameters if one.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, **shared)  # type: ignore[arg-type]
