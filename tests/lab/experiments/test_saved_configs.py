"""The settings of every published run can be read, with the meaning that they had when it ran."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from bleugrad.lab.errors import UsageError
from bleugrad.lab.experiments.paper.config import ReproduceConfig
from bleugrad.lab.experiments.paper.plan import PlannedStage, Protocol
from bleugrad.lab.experiments.paper.presets import configured
from bleugrad.lab.experiments.toy.config import ToyConfig
from bleugrad.lab.settings.loading import build, load, read_toml, to_toml
from bleugrad.lab.training.config import TrainConfig
from bleugrad.lab.training.objectives.config import RecommendedConfig

RESULTS = Path(__file__).parents[3] / "results"
SAVED = {str(path.parent.relative_to(RESULTS)): path for path in sorted(RESULTS.rglob("config.toml"))}
KINDS = {"reproduce": ReproduceConfig, "toy": ToyConfig, "train": TrainConfig, "tune": TrainConfig}


def expect(objective, table):
    """What the run trained with: "exact" was plain unless the recipe was asked for."""
    if table.get("recommended"):
        assert objective == RecommendedConfig()
        return
    soft = table.get("feeding") == "soft-beam"
    assert objective.name == ("soft_beam" if soft else table["name"])
    assert not soft or objective.method == table["name"]
    own = {key: value for key, value in table.items() if key != "name" and hasattr(objective, key)}
    assert {key: getattr(objective, key) for key in own} == own


@pytest.mark.parametrize("name", SAVED)
def test_settings_of_a_published_run_keep_their_meaning(name):
    path, values = SAVED[name], read_toml(SAVED[name])
    kind = KINDS[json.loads((path.parent / "run.json").read_text())["study"]]
    if "objectives" in values:  # of a version whose files are refused, but whose reports can be redrawn
        with pytest.raises(UsageError, match="'objectives' is no longer read"):
            configured({}, path, {})
        return
    config = configured({}, path, {}) if kind is ReproduceConfig else load(kind, path)
    if kind is TrainConfig:
        expect(config.objective, values["objective"])
    if kind is ReproduceConfig:
        protocol = Protocol(config, Path("runs"))
        for label, table in values["branches"].items():
            stage = PlannedStage("try", config.seed, label, 0)
            expect(protocol.settings(stage).objective, table["objective"])
            assert build(TrainConfig, asdict(protocol.settings(stage))) == protocol.settings(stage)


def test_settings_of_published_runs_survive_being_written_again(tmp_path):
    for path in (path for name, path in SAVED.items() if name.startswith(("walk", "recipes/e2e_nlg"))):
        config = load(TrainConfig, path)
        (tmp_path / "again.toml").write_text(to_toml(config))
        assert load(TrainConfig, tmp_path / "again.toml") == config
