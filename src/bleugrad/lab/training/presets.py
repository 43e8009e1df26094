"""Presets: named settings. Files and options override them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bleugrad.lab.errors import UsageError
from bleugrad.lab.models.config import ONE_PASS

Settings = Mapping[str, Any]


def one_pass(kind: str, before: Settings, hidden: int = 128, **optimizer: Any) -> Settings:
    """The settings of a corpus with a one-pass model instead of an LSTM."""
    layers = {"nat": (2, 2), "ctc": (3, 1), "graph": (3, 2)}[kind]  # a layer over the frames of ctc costs three times
    model = {"kind": kind, "hidden": hidden, "encoder_layers": layers[0], "decoder_layers": layers[1], "dropout": 0.1}
    cosine = {"learning_rate": 1e-3, "epochs": 16, "warmup": 400, "decay": "cosine"}
    adam = (cosine if kind == "graph" else {"learning_rate": 2e-3, "epochs": 20, "patience": 1}) | optimizer
    glancing = {"name": "ce", "glancing_first": 0.5, "glancing_last": 0.1}
    return {**before, "model": model, "optimizer": adam, **({"objective": glancing} if kind == "graph" else {})}


_AUTOREGRESSIVE: Mapping[str, Settings] = MappingProxyType(
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


def transformer(data: Settings, layers: int, hidden: int, tied: str = "output", **more: Any) -> Settings:
    """The settings of a corpus with a Transformer, in the way that is usual for it."""
    optimizer = {"learning_rate": 2e-3, "beta2": 0.98, "warmup": 1000, "decay": "inverse_sqrt", "weight_decay": 1e-4}
    return {
        "data": data,
        "model": {
            "kind": "transformer",
            "hidden": hidden,
            "encoder_layers": layers,
            "decoder_layers": layers,
            "dropout": more.pop("dropout", 0.2),
            "tied": tied,
        },
        "optimizer": optimizer | {"clip": 1.0, "epochs": 20, "average": 3, "early_stopping": 5} | more,
        "objective": {"name": "ce", "label_smoothing": 0.1},
    }


_SUBWORDS: Settings = {"units": "bpe", "joint": True, "vocabulary_size": 8000}

_TRANSFORMERS: Mapping[str, Settings] = MappingProxyType(
    {
        "transformer-tiny": transformer(_AUTOREGRESSIVE["tiny"]["data"], layers=2, hidden=128),
        "transformer-multi30k": transformer(
            {"corpus": "multi30k", **_SUBWORDS}, layers=3, hidden=256, tied="all", dropout=0.3
        ),
        "transformer-iwslt14": transformer(
            {"corpus": "iwslt14", **_SUBWORDS}, layers=3, hidden=256, tied="all", warmup=2000
        ),
    }
)

PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        **_AUTOREGRESSIVE,
        **_TRANSFORMERS,
        **{
            f"{name}-{kind}": one_pass(kind, {"data": _AUTOREGRESSIVE[name]["data"]})
            for name in ("tiny", "multi30k")
            for kind in ONE_PASS
        },
    }
)

_FRESH = {"patience": 1, "warmup": 0, "average": 1, "early_stopping": 0}
_STEPS = {"learning_rate": 1e-3, "epochs": 3, "decay": "step", "decay_factor": 0.3}
_COSINE = {"learning_rate": 5e-4, "epochs": 8, "decay": "cosine"}


def tuning(one_pass: bool) -> Settings:
    """The optimizer of the second phase: that of the results, which is another one for one-pass models."""
    return {"optimizer": _FRESH | (_COSINE if one_pass else _STEPS)}


def preset(name: str, presets: Mapping[str, Settings] = PRESETS) -> Settings:
    """The settings of a preset."""
    if name not in presets:
        raise UsageError(f"preset is {name!r}; expected one of {', '.join(presets)}")
    return presets[name]
