"""The paper's protocol: what its training section says, whatever the preset is."""

import pytest

from bleugrad.lab.errors import UsageError
from bleugrad.lab.experiments.paper.plan import Protocol
from bleugrad.lab.experiments.paper.presets import PRESETS, configured
from bleugrad.lab.models.config import ONE_PASS
from bleugrad.lab.settings.loading import to_toml

WITHOUT_FILES = [name for name in PRESETS if not name.endswith(ONE_PASS)]


@pytest.mark.parametrize("name", WITHOUT_FILES)
def test_objectives_rates_epochs_runs_and_searches_are_those_of_the_paper(name, tmp_path):
    config = configured(PRESETS[name], None, {"protocol": "paper"})
    assert config.run_seeds() == list(range(1, 9))
    assert config.searches == {"greedy": 1, "beam 5": 5}
    protocol = Protocol(config, tmp_path)
    found = {(stage.kind, stage.branch): stage for stage in protocol.stages if stage.seed == 1}
    base = protocol.settings(found["base", "base"])
    assert (base.objective.name, base.optimizer.epochs, base.optimizer.learning_rate) == ("ce", 20, 1e-4)
    rates = {"ce": 1e-4, "reinforce-own": 1e-5, "bound-sentence": 1e-4, "exact": 1e-4}
    if name == "wmt14":  # table 2 has no REINFORCE
        del rates["reinforce-own"]
    assert list(protocol.branches) == list(rates)
    for label, rate in rates.items():
        tuned = protocol.settings(found["try", label])
        for phase in (base, tuned):
            assert (phase.optimizer.decay, phase.optimizer.early_stopping) == ("none", 0)
        assert (tuned.optimizer.epochs, tuned.optimizer.learning_rate) == (5, rate)
        assert tuned.data == base.data
    if name != "wmt14":
        reinforce = protocol.settings(found["try", "reinforce-own"]).objective
        assert (reinforce.feeding, reinforce.samples, reinforce.baseline) == ("sample", 2, "leave-one-out")
    bound = protocol.settings(found["try", "bound-sentence"]).objective
    assert (bound.level, bound.smoothing, bound.feeding) == ("sentence", 1.0, "reference")
    assert config.model == configured(PRESETS[name], None, {}).model


def test_options_and_files_come_after_the_protocol(tmp_path):
    config = configured(PRESETS["tiny"], None, {"protocol": "paper", "seeds": 2}, ["ce", "bound-sentence"])
    assert (config.seeds, list(config.branches), config.base.decay) == (2, ["ce", "bound-sentence"], "none")
    saved = tmp_path / "config.toml"
    saved.write_text(to_toml(config))
    assert configured({}, saved, {}) == config
    saved.write_text('protocol = "paper"\n[branches.mix.objective]\nname = "exact"\n')
    assert list(configured(PRESETS["tiny"], saved, {}).branches) == ["mix"]


def test_the_default_is_the_tuned_protocol():
    assert configured(PRESETS["multi30k"], None, {}).protocol == "tuned"
    assert len(configured(PRESETS["multi30k"], None, {}).tuning.factors) == 3
    with pytest.raises(UsageError, match="protocol is 'papers'; expected"):
        configured(PRESETS["multi30k"], None, {"protocol": "papers"})
