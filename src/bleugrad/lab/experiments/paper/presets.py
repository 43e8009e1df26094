"""Named settings: the two protocols, and presets, which know the corpora and the sizes of the models."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bleugrad.lab.errors import UsageError
from bleugrad.lab.experiments.paper.branches import select
from bleugrad.lab.experiments.paper.config import ReproduceConfig
from bleugrad.lab.models.config import ONE_PASS as KINDS
from bleugrad.lab.settings.loading import layered, merged, read_toml
from bleugrad.lab.training.presets import PRESETS as TRAINING
from bleugrad.lab.training.presets import one_pass, transformer

Settings = Mapping[str, Any]

PROTOCOLS: Mapping[str, Settings] = MappingProxyType(
    {
        "tuned": {},
        "paper": {
            "seeds": 8,
            "beam": 5,
            "label_smoothing": 0.0,
            "base": {
                "learning_rate": 1e-4,
                "epochs": 20,
                "weight_decay": 0.0,
                "warmup": 0,
                "decay": "none",
                "average": 1,
                "early_stopping": 0,
            },
            "tuning": {
                "epochs": 5,
                "learning_rate": 1e-4,
                "reinforce_learning_rate": 1e-5,
                "factors": (1.0,),
                "batch_size": 0,
                "decay": "none",
                "early_stopping": 0,
            },
            "branches": select(
                ("ce", "reinforce-own", "bound-sentence", "exact"), {"reinforce-own": {"objective": {"samples": 2}}}
            ),
        },
    }
)
"""What a protocol changes in the settings of a preset: objectives, rates, epochs, runs and searches.

"exact" is not an objective of the paper; it is compared under
the same conditions. The paper does not say how many samples its REINFORCE draws and which baseline it uses; here two
samples are drawn, and the baseline of each is the reward of the other.
"""


PAPER = select(("ce", "reinforce", "bound", "exact"), {})
TABLE_2 = select(("ce", "bound", "exact"), {})
ONE_PASS_BRANCHES = select(("ce", "exact", "exact-mix", "exact-sharp", "clipped-mean"), {})
TRANSFORMER_BRANCHES = select(("ce", "bound", "exact", "recommended", "reinforce-own"), {})
BUILTIN = {"corpus": "builtin", "min_count": 1, "batch_size": 16, "builtin_train": 6000, "builtin_valid": 200}
BUILTIN_TUNING = {"epochs": 2, "learning_rate": 3e-4, "reinforce_learning_rate": 1e-4, "factors": (1.0, 3.0)}


def _from_training(values: Settings, **more: Any) -> Settings:
    """The protocol of a training preset."""
    settings = {"data": values["data"], "model": values.get("model", {}), "base": values["optimizer"]}
    kind, objective = settings["model"].get("kind"), values.get("objective", {})
    if kind == "transformer":
        settings |= {"branches": TRANSFORMER_BRANCHES, "label_smoothing": objective["label_smoothing"]}
    elif kind is not None:  # a one-pass model; higher rates, because its first phase ends far from the best weights
        settings["branches"] = ONE_PASS_BRANCHES | (select(("bound",), {}) if kind == "nat" else {})
        settings["tuning"] = {"epochs": 4, "learning_rate": 1e-3, "factors": (0.5, 2.0)}
        if "glancing_last" in objective:  # goes on as it ended; with higher rates expected BLEU falls at first
            settings["branches"] |= {"ce": {"objective": {"glancing_first": objective["glancing_last"]}}}
            settings["tuning"] |= {"learning_rate": 5e-4, "epochs": 8, "decay": "cosine", "factors": (1.0,)}
            settings |= {name: value for name, value in objective.items() if name != "name"}
    return merged(settings, more)


PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        "builtin": {
            "seeds": 2,
            "data": BUILTIN,
            "model": {"embedding": 64, "hidden": 64, "dropout": 0.1, "initial_range": 0.2},
            "base": {"learning_rate": 4e-3, "epochs": 20, "decay_factor": 0.3, "early_stopping": 3},
            "tuning": BUILTIN_TUNING | {"batch_size": 64},
        },
        "tiny": _from_training(TRAINING["tiny"], seeds=8, base={"epochs": 20}),
        "multi30k": _from_training(TRAINING["multi30k"]),
        "tatoeba": {"seeds": 2, "branches": PAPER, "data": {"corpus": "tatoeba", "min_count": 3}},
        "iwslt14": _from_training(TRAINING["iwslt14"], branches=PAPER),
        "wmt14": _from_training(TRAINING["wmt14"], branches=TABLE_2),
        **{
            f"builtin-{kind}": _from_training(one_pass(kind, {"data": BUILTIN | {"batch_size": 32}}, 64))
            for kind in KINDS
        },
        **{
            f"{name}-{kind}": _from_training(TRAINING[f"{name}-{kind}"])
            for name in ("tiny", "multi30k")
            for kind in KINDS
        },
        "transformer-builtin": _from_training(
            transformer(BUILTIN | {"batch_size": 32}, layers=2, hidden=64, dropout=0.1, warmup=400),
            seeds=6,
            tuning=BUILTIN_TUNING | {"batch_size": 64},
        ),
        "transformer-tiny": _from_training(TRAINING["transformer-tiny"], seeds=3),
        "transformer-multi30k": _from_training(TRAINING["transformer-multi30k"], seeds=3),
        "transformer-iwslt14": _from_training(TRAINING["transformer-iwslt14"], seeds=1),
    }
)


def configured(
    before: Settings, file: Path | None, options: Settings, names: Sequence[str] | None = None
) -> ReproduceConfig:
    """Settings of a preset, then those of the protocol, of a file, and of the command line.

    Branches of the file replace those of the protocol, and these those of the preset. A preset without REINFORCE, as
    table 2 of the paper, has none with the paper's protocol either. ``names`` selects from them and from the built-in
    branches.
    """
    in_file = read_toml(file) if file is not None else {}
    if "objectives" in in_file:
        raise UsageError(
            f"{file}: 'objectives' is no longer read; expected [branches.NAME] tables, see docs/reproduce.md"
        )
    protocol = PROTOCOLS.get(options.get("protocol", in_file.get("protocol", "tuned")), {})
    if "branches" in in_file:
        protocol = _without_branches(protocol)
    elif "branches" in protocol and "branches" in before and not any(map(_is_reinforce, before["branches"])):
        kept = {label: table for label, table in protocol["branches"].items() if not _is_reinforce(label)}
        protocol = {**protocol, "branches": kept}
    if "branches" in in_file or "branches" in protocol:
        before = _without_branches(before)
    config = layered(ReproduceConfig, merged(before, protocol), file, options)
    return config if names is None else replace(config, branches=select(names, config.branches))


def _without_branches(values: Settings) -> Settings:
    return {name: value for name, value in values.items() if name != "branches"}


def _is_reinforce(label: str) -> bool:
    return label.startswith("reinforce")
