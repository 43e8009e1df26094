"""The optimizer of the settings, and its learning rate: decay, early stopping and the best epoch by validation BLEU."""

import math
from dataclasses import dataclass

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


@dataclass
class Schedule:
    """The state after some validations.

    ``best`` is the highest validation BLEU so far, -1 before the first. ``since_decay`` counts validations since the
    last decay, or since the best one with a plateau decay.
    """

    learning_rate: float
    best: float = -1.0
    best_epoch: int = 0
    since_best: int = 0
    since_decay: int = 0

    def observe(self, bleu: float, epoch: int, config: OptimizerConfig) -> bool:
        """Add a score in an epoch (0: the initial weights); returns whether it is the best so far."""
        improved = bleu > self.best
        if improved:
            self.best, self.best_epoch, self.since_best = bleu, epoch, 0
        else:
            self.since_best += 1
        self.since_decay = 0 if epoch == 0 or (improved and config.decay == "plateau") else self.since_decay + 1
        if config.decay in ("plateau", "step") and self.since_decay >= config.patience:
            self.learning_rate *= config.decay_factor
            self.since_decay = 0
        return improved

    def over(self, config: OptimizerConfig) -> bool:
        """Whether early stopping ends the run."""
        return 0 < config.early_stopping <= self.since_best


def step_factor(step: int, total: int, config: OptimizerConfig) -> float:
    """The factor of the learning rate at an update, counted from 1, of ``total``.

    It rises linearly in the warm-up. Then it falls with the root of the step ("inverse_sqrt"; Vaswani and others,
    2017), along half a cosine ("cosine"; Loshchilov and Hutter, 2017), or stays 1.
    """
    if step <= config.warmup:
        return step / config.warmup
    if config.decay == "inverse_sqrt":
        return math.sqrt(max(config.warmup, 1) / step)
    if config.decay == "cosine":
        done = (step - config.warmup - 1) / max(total - config.warmup, 1)
        return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return 1.0
