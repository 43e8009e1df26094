"""Presets: settings that go together, under a name. What a file or an option says comes after."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bleugrad.configuration.loading import build, load, merged, read_toml
from bleugrad.errors import UsageError
from bleugrad.training.config import TrainConfig

Settings = Mapping[str, Any]

PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        "tiny": {
            "data": {"corpus": "tatoeba_tiny", "min_count": 1},
            "model": {"embedding": 128, "hidden": 128, "initial_range": 0.2},
            "optimizer": {"learning_rate": 2e-3, "epochs": 10, "patience": 1},
        },
        "multi30k": {
            "data": {"corpus": "multi30k", "min_count": 2},
            "model": {"embedding": 256, "hidden": 256, "dropout": 0.3},
            "optimizer": {"epochs": 20, "patience": 1},
        },
        "iwslt14": {
            "data": {"corpus": "iwslt14", "vocabulary_source": "corpus", "vocabulary_target": "corpus"},
            "optimizer": {"epochs": 20, "patience": 1},
        },
        "wmt14": {
            "data": {"corpus": "wmt14", "lowercase": True, "vocabulary_size": 50000},
            "model": {"embedding": 512, "hidden": 512, "encoder_layers": 2, "decoder_layers": 2},
            "optimizer": {"epochs": 20, "patience": 1},
        },
    }
)

TUNING: Settings = MappingProxyType({"optimizer": {"learning_rate": 1e-4, "epochs": 5, "early_stopping": 0}})
"""Second phase of the paper's protocol, on top of the settings of the run it starts from."""


def configured(before: Settings, file: Path | None, options: Settings) -> TrainConfig:
    """Settings of a preset or an earlier run, then those of a file, then those of the command line."""
    values = dict(before)
    if file is not None:
        load(TrainConfig, file)  # a mistake in the file is said with its name
        values = merged(values, read_toml(file))
    return build(TrainConfig, merged(values, options))


def preset(name: str) -> Settings:
    """The settings under a name.

    Example:
        >>> preset("tiny")["model"]
        {'embedding': 128, 'hidden': 128, 'initial_range': 0.2}
    """
    if name not in PRESETS:
        raise UsageError(f"preset is {name!r}; expected one of {', '.join(PRESETS)}")
    return PRESETS[name]
