"""The multi30k preset for benchmarks: settings, encoded text and an untrained model."""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from bleugrad.lab.data.batches import Batch, BatchPlan
from bleugrad.lab.data.encoding import build_vocabularies, encode_split
from bleugrad.lab.data.preparation import prepare
from bleugrad.lab.errors import FailureError
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.models.protocol import Decoding, TranslationModel
from bleugrad.lab.settings.loading import layered
from bleugrad.lab.training.config import TrainConfig
from bleugrad.lab.training.objectives.build import build_objective
from bleugrad.lab.training.objectives.config import CrossEntropyConfig, ObjectiveConfig
from bleugrad.lab.training.presets import preset


@dataclass(frozen=True)
class Setting:
    """The preset; uses the built-in corpus if Multi30k is missing."""

    config: TrainConfig
    train: BatchPlan
    test: BatchPlan
    model: Decoding
    note: str


def add_data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", default="", help="folder with multi30k (default: $BLEUGRAD_DATA or the cache)")


def load(directory: str, name: str = "multi30k") -> Setting:
    given = {"data": {"directory": directory}}
    config, note = layered(TrainConfig, preset(name), None, given), "Multi30k"
    try:
        corpus = prepare(config.data)
    except FailureError as error:
        small = {"data": {"corpus": "builtin", "builtin_test": 1000}}
        config = layered(TrainConfig, preset(name), None, small)
        corpus, note = prepare(config.data), "the built-in corpus instead of Multi30k; its vocabulary is much smaller"
        print(f"{error}\nmeasuring on {note}")
    source, target = build_vocabularies(corpus, config.data)
    plans = [BatchPlan(encode_split(split, source, target), size=64) for split in (corpus.train, corpus.test)]
    torch.manual_seed(0)
    return Setting(config, plans[0], plans[1], build_model(config.model, len(source), len(target)), note)


def step(
    model: TranslationModel,
    objective: ObjectiveConfig | torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    clip: float = 5.0,
) -> Callable[[Batch], float]:
    """One training step as in the trainer: forward, backward, clipping, Adam."""
    loss_of = objective if isinstance(objective, torch.nn.Module) else build_objective(model, objective)
    parameters = list(model.parameters())

    def run(batch: Batch) -> float:
        loss = loss_of(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return run


def train_shortly(setting: Setting, steps: int, learning_rate: float = 2e-3) -> float:
    """Trains with cross-entropy until translations have realistic lengths; returns the mean of the last losses."""
    optimizer = torch.optim.Adam(setting.model.parameters(), learning_rate, fused=True)
    run = step(setting.model, CrossEntropyConfig(), optimizer, setting.config.optimizer.clip)
    setting.model.train()
    losses: list[float] = []
    began = time.perf_counter()
    batches = (indices for epoch in range(1000) for indices in setting.train.epoch(epoch))
    for number, indices in zip(range(1, steps + 1), batches, strict=False):
        losses.append(run(setting.train.collate(indices)))
        if number % 100 == 0:
            print(f"training: step {number}, loss {losses[-1]:.2f}, {time.perf_counter() - began:.0f} s", flush=True)
    return sum(losses[-20:]) / max(len(losses[-20:]), 1)
