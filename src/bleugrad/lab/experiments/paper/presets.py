"""Presets of the protocol: named corpora with their settings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bleugrad.lab.data.locations import roots
from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.experiments.paper.branches import select
from bleugrad.lab.experiments.paper.config import ReproduceConfig
from bleugrad.lab.experiments.paper.protocols import PROTOCOLS
from bleugrad.lab.models.config import ONE_PASS as KINDS
from bleugrad.lab.settings.loading import layered, merged, read_toml
from bleugrad.lab.training.presets import PRESETS as TRAINING
from bleugrad.lab.training.presets import one_pass, transformer

Settings = Mapping[str, Any]


def _from_training(name: str, **more: Any) -> Settings:
    values = TRAINING[name]
    return merged({"data": values["data"], "model": values.get("model", {}), "base": values["optimizer"]}, more)


PAPER = select(("ce", "reinforce", "bound", "exact"), {})
TABLE_2 = select(("ce", "bound", "exact"), {})
ONE_PASS_BRANCHES = select(("ce", "exact", "exact-mix", "exact-sharp", "clipped-mean"), {})
BUILTIN = {"corpus": "builtin", "min_count": 1, "batch_size": 16, "builtin_train": 6000, "builtin_valid": 200}


TRANSFORMER_BRANCHES = select(("ce", "bound", "exact", "sharp-mix", "own-mix", "reinforce-own"), {})


def _transformer(values: Settings, **more: Any) -> Settings:
    """The protocol of a training preset with a Transformer."""
    settings = {"data": values["data"], "model": values["model"], "base": values["optimizer"]}
    smoothing = values["objective"]["label_smoothing"]
    return merged(settings | {"branches": TRANSFORMER_BRANCHES, "label_smoothing": smoothing}, more)


def _one_pass(values: Settings, **more: Any) -> Settings:
    """The protocol of a training preset with a one-pass model: higher rates, because the first phase ends far away."""
    tuning = {"epochs": 4, "learning_rate": 1e-3, "factors": (0.5, 2.0)}
    branches = ONE_PASS_BRANCHES | (select(("bound",), {}) if values["model"]["kind"] == "nat" else {})
    glancing = {name: value for name, value in values.get("objective", {}).items() if name != "name"}
    if glancing:  # goes on as it ended; with higher rates expected BLEU falls at first
        branches = {**branches, "ce": {"objective": {"glancing_first": glancing["glancing_last"]}}}
        tuning = {**tuning, "learning_rate": 5e-4, "factors": (0.5, 1.0)}
    return merged(
        {
            "branches": branches,
            **glancing,
            "data": values["data"],
            "model": values["model"],
            "base": values["optimizer"],
            "tuning": tuning,
        },
        more,
    )


PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        "builtin": {
            "seeds": 2,
            "data": BUILTIN,
            "model": {"embedding": 64, "hidden": 64, "dropout": 0.1, "initial_range": 0.2},
            "base": {"learning_rate": 4e-3, "epochs": 20, "decay_factor": 0.3, "early_stopping": 3},
            "tuning": {
                "epochs": 2,
                "learning_rate": 3e-4,
                "reinforce_learning_rate": 1e-4,
                "factors": (1.0, 3.0),
                "batch_size": 64,
            },
        },
        "tiny": _from_training("tiny", seeds=8, base={"epochs": 20}),
        "multi30k": _from_training("multi30k"),
        "tatoeba": {"seeds": 2, "branches": PAPER, "data": {"corpus": "tatoeba", "min_count": 3}},
        "iwslt14": _from_training("iwslt14", branches=PAPER),
        "wmt14": _from_training("wmt14", branches=TABLE_2),
        "wmt_mini": _from_training("wmt14", branches=TABLE_2, data={"corpus": "files"}),
        **{f"builtin-{kind}": _one_pass(one_pass(kind, {"data": {**BUILTIN, "batch_size": 32}}, 64)) for kind in KINDS},
        **{f"{name}-{kind}": _one_pass(TRAINING[f"{name}-{kind}"]) for name in ("tiny", "multi30k") for kind in KINDS},
        "transformer-builtin": _transformer(
            transformer({**BUILTIN, "batch_size": 32}, layers=2, hidden=64, dropout=0.1, warmup=400),
            seeds=6,
            tuning={
                "epochs": 2,
                "learning_rate": 3e-4,
                "reinforce_learning_rate": 1e-4,
                "factors": (1.0, 3.0),
                "batch_size": 64,
            },
        ),
        "transformer-tiny": _transformer(TRAINING["transformer-tiny"], seeds=3),
        "transformer-multi30k": _transformer(TRAINING["transformer-multi30k"], seeds=3),
        "transformer-iwslt14": _transformer(TRAINING["transformer-iwslt14"], seeds=1),
        "e2e_nlg": {
            "model": {"initial_range": 0.2},
            "data": {"corpus": "files", "source_language": "src", "target_language": "trg", "min_count": 2},
        },
    }
)


def preset(name: str) -> Settings:
    """The settings of a preset."""
    if name not in PRESETS:
        raise UsageError(f"preset is {name!r}; expected one of {', '.join(PRESETS)}")
    if name == "e2e_nlg":
        return _e2e_nlg()
    if name == "wmt_mini":
        return merged(PRESETS[name], {"data": {"directory": str(_folder(name))}})
    return PRESETS[name]


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


def _folder(name: str) -> Path:
    """The folder of a corpus that is read from files."""
    places = [root / name for root in roots()]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        raise FailureError(f"the corpus {name} is in none of {', '.join(map(str, places))}; set BLEUGRAD_DATA")
    return found


def _e2e_nlg() -> Settings:
    """Descriptions of restaurants: two branches learn from pairs, the others from all references at once.

    An input has about eight references, so there are fewer inputs than pairs; smaller batches give enough steps.
    """
    found = _folder("e2e_nlg")
    files = {"train_source": f"{found}/train.multi.src.gz", "train_target": f"{found}/train.refs.trg.gz"}
    several = {**files, "batch_size": 32}
    branches = {
        "ce": {},
        "exact-pairs": {"objective": {"name": "exact"}},
        "exact": {"data": several},
        "length": {"objective": {"name": "exact", "length": "random", "end_positions": 3}, "data": several},
    }
    return merged(PRESETS["e2e_nlg"], {"data": {"directory": str(found)}, "branches": branches})
