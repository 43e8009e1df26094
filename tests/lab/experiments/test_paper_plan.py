"""Branches, settings and stages: tables of branches, order of the stages, and detection of finished stages."""

import json
from pathlib import Path

import pytest

from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.experiments.paper.branches import read_branch
from bleugrad.lab.experiments.paper.config import ReproduceConfig
from bleugrad.lab.experiments.paper.plan import PlannedStage, Protocol, rate_name
from bleugrad.lab.experiments.paper.presets import PRESETS, configured
from bleugrad.lab.settings.loading import build, to_toml
from bleugrad.lab.training.presets import preset

TEN = {"branches": {"ce": {}, "exact": {}}, "seeds": 2, "tuning": {"factors": (1.0, 3.0)}}


def protocol(output=Path("out"), **more):
    return Protocol(build(ReproduceConfig, TEN | more), output)


def save(plan, stage, best_bleu, status="finished"):
    """A stage as a training run leaves it."""
    directory = plan.directory(stage)
    directory.mkdir(parents=True)
    (directory / "run.json").write_text(json.dumps({"study": "train", "status": status}))
    (directory / "config.toml").write_text(to_toml(plan.settings(stage)))
    (directory / "summary.json").write_text(json.dumps({"best_bleu": best_bleu}))


def test_a_branch_is_a_table_of_training_settings():
    assert read_branch("exact-own", {}).overrides == {"objective": {"name": "exact", "feeding": "greedy"}}
    table = {
        "objective": {"name": "exact", "cross_entropy_weight": 0.1},
        "data": {"batch_size": 128},
        "learning_rates": [1e-4, 3e-4],
    }
    branch = read_branch("mix", table)
    assert branch.overrides == {name: table[name] for name in ("objective", "data")}
    assert branch.rates == (1e-4, 3e-4)
    assert (branch.title, read_branch("bound", {}).title) == ("mix", "LB (corpus)")
    assert read_branch("exact-own", {"objective": {"feeding": "sample"}}).overrides["objective"]["name"] == "exact"


@pytest.mark.parametrize(
    ("label", "table", "message"),
    [
        ("a", {"objective": {"name": "exacct"}}, "branches.a.objective.name is 'exacct'"),
        ("a", {}, "branches.a.objective.name is missing; expected an objective"),
        (
            "exact",
            {"objective": {"levl": 1}},
            "'branches.exact.objective.levl'; did you mean 'branches.exact.objective.level'",
        ),
        (
            "exact",
            {"objective": {"level": "x"}},
            "branches.exact.objective.level is 'x'; expected 'corpus' or 'sentence'",
        ),
        ("exact", {"objective": {"smoothing": "x"}}, "branches.exact.objective.smoothing is 'x'; expected a number"),
        ("exact", {"objective": 3}, "branches.exact.objective.name is missing"),
        ("exact", {"optimizer": {"epochs": 9}}, "branches.exact.optimizer.epochs is the same for all branches"),
        ("exact", {"optimizer": {"learning_rate": 9}}, "is the same for all branches; expected learning_rates"),
        (
            "exact",
            {"learning_rates": [0.1, 0]},
            "branches.exact.learning_rates is [0.1, 0]; expected a list of positive",
        ),
        ("exact", 3, "branches is {'exact': 3}; expected tables [branches.NAME]"),
        ("mrt", {"objective": {"include_reference": "yes"}}, "expected true or false"),
        ("../a", {"objective": {"name": "exact"}}, "the label '../a' names a folder"),
        ("base", {"objective": {"name": "exact"}}, "is reserved for the first phase"),
        (
            "ce",
            {"objective": {"feeding": "greedy"}},
            "branches.ce.objective.feeding is 'greedy'; expected 'reference' or 'mixture'",
        ),
        ("exact", {"data": {"train_source": "x"}}, "branches.exact.data.train_source is given and corpus is 'builtin'"),
    ],
)
def test_a_mistake_in_a_branch_is_said(label, table, message):
    with pytest.raises(UsageError) as error:
        build(ReproduceConfig, {"branches": {label: table}})
    assert message in str(error.value)


def test_every_branch_has_as_many_tries():
    hot = {"objective": {"name": "exact"}, "learning_rates": [1e-3, 3e-3, 1e-2]}
    config = build(ReproduceConfig, {"branches": {"ce": {}, "reinforce": {}, "hot": hot}})
    rates = {label: config.rates(branch) for label, branch in config.read_branches().items()}
    assert rates == {"ce": [3e-5, 1e-4, 3e-4], "reinforce": [3e-6, 1e-5, 3e-5], "hot": [1e-3, 3e-3, 1e-2]}
    with pytest.raises(UsageError, match=r"branches.hot has 1 learning rates and tuning.factors 3; expected as many"):
        build(ReproduceConfig, {"branches": {"hot": hot | {"learning_rates": [1e-3]}}})


def test_settings_survive_their_file(tmp_path):
    """Also with a comma in a path, with learning rates, and with the order of the branches."""
    data = {"corpus": "files", "directory": str(tmp_path)}
    branches = {
        "mix": {"objective": {"name": "exact"}, "data": {"train_source": "a, b=c.gz"}, "learning_rates": [1e-3, 3e-3]},
        "ce": {},
    }
    config = build(ReproduceConfig, TEN | {"data": data, "branches": branches})
    (tmp_path / "config.toml").write_text(to_toml(config))
    again = configured({}, tmp_path / "config.toml", {})
    assert again == config
    assert list(again.branches) == ["mix", "ce"]


def test_names_select_branches_of_the_file_and_built_in_ones(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[branches.mix]\nobjective.name = "exact"\n[branches.ce]\ndata.batch_size = 7\n')
    assert list(configured(PRESETS["tatoeba"], file, {}).branches) == ["mix", "ce"]
    assert list(configured(PRESETS["tatoeba"], None, {}).branches) == ["ce", "reinforce", "bound", "exact"]
    chosen = configured({}, file, {}, ["bound", "ce"]).branches
    assert chosen == {
        "bound": {"objective": {"name": "bound"}},
        "ce": {"objective": {"name": "ce"}, "data": {"batch_size": 7}},
    }
    with pytest.raises(UsageError, match="'mixx' is not known; did you mean 'mix'"):
        configured({}, file, {}, ["mixx"])
    with pytest.raises(UsageError, match="branches is 'ce,ce'; expected each label once"):
        configured({}, file, {}, ["ce", "ce"])
    file.write_text('objectives = ["ce"]')
    with pytest.raises(
        UsageError, match=r"mine.toml: 'objectives' is no longer read; expected \[branches.NAME\] tables"
    ):
        configured({}, file, {})


def test_stages_and_what_they_wait_for():
    plan = protocol()
    assert len(plan.stages) == 2 * (1 + 1 + 2 * (2 + 1))
    base, ce, exact = PlannedStage("base", 1, "base"), plan.tries(1, "ce"), plan.tries(1, "exact")
    assert plan.needs(base) == set()
    assert plan.needs(PlannedStage("test", 1, "base")) == {base}
    assert plan.needs(ce[0]) == {base}
    assert plan.needs(PlannedStage("test", 1, "exact")) == {*exact}
    assert [plan.name(stage) for stage in exact] == ["seed-1/exact-lr1e-4", "seed-1/exact-lr3e-4"]
    assert plan.name(PlannedStage("test", 2, "base")) == "seed-2/base on test"


def test_settings_of_the_phases():
    own = {"objective": {"name": "exact", "feeding": "greedy"}, "data": {"batch_size": 7}}
    plan = protocol(branches={"ce": {}, "own": own}, base={"epochs": 9, "clip": 3.0})
    base = plan.settings(PlannedStage("base", 2, "base"))
    assert (base.seed, base.objective.name, base.optimizer.epochs) == (2, "ce", 9)
    assert base.optimizer.early_stopping > 0
    tried = plan.settings(plan.tries(2, "own")[1])
    assert (tried.seed, tried.objective.name, tried.objective.feeding, tried.data.batch_size) == (
        2,
        "exact",
        "greedy",
        7,
    )
    assert (tried.optimizer.epochs, tried.optimizer.learning_rate, tried.optimizer.clip) == (5, 3e-4, 3.0)
    assert tried.optimizer.early_stopping == 0
    assert plan.settings(plan.tries(2, "ce")[1]).data.batch_size == 64


def test_recommended_branches_have_the_label_smoothing_of_the_first_phase():
    tables = {"recommended": {}, "recommended-own": {"objective": {"label_smoothing": 0.3}}, "exact": {}}
    plan = protocol(branches=tables, label_smoothing=0.1)
    found = {label: plan.settings(PlannedStage("try", 1, label, 0)).objective for label in tables}
    assert (found["recommended"].label_smoothing, found["recommended-own"].label_smoothing) == (0.1, 0.3)
    assert not hasattr(found["exact"], "label_smoothing")


def test_the_best_try_is_that_of_the_highest_validation_score(tmp_path):
    plan = protocol(tmp_path)
    first, second = plan.tries(1, "exact")
    save(plan, first, 0.30)
    save(plan, second, 0.31)
    assert plan.best_try(1, "exact") == second
    assert plan.name(PlannedStage("test", 1, "exact")) == "seed-1/exact-lr3e-4 on test"
    save(plan, plan.tries(1, "ce")[0], 0.30)
    save(plan, plan.tries(1, "ce")[1], 0.30)
    assert plan.best_try(1, "ce") == plan.tries(1, "ce")[0]


def test_the_first_seed_can_choose_for_all(tmp_path):
    plan = protocol(tmp_path, tuning={"factors": (1.0, 3.0), "choose_with": "first"})
    first = plan.tries(1, "exact")
    (only,) = plan.tries(2, "exact")
    assert len(first) == 2
    assert plan.needs(only) == {PlannedStage("base", 2, "base"), *first}
    save(plan, first[0], 0.30)
    save(plan, first[1], 0.31)
    assert plan.name(only) == "seed-2/exact-lr3e-4"
    assert plan.settings(only).optimizer.learning_rate == 3e-4


def test_what_is_done_is_known_from_its_files(tmp_path):
    plan = protocol(tmp_path)
    base = PlannedStage("base", 1, "base")
    assert not plan.is_done(base)
    save(plan, base, 0.3)
    assert plan.is_done(base)
    save(plan, plan.tries(1, "ce")[0], 0.3, status="running")
    assert not plan.is_done(plan.tries(1, "ce")[0])
    test = PlannedStage("test", 1, "base")
    folder = plan.directory(base) / "evaluations"
    folder.mkdir()
    (folder / "test.greedy.json").write_text("{}")
    assert not plan.is_done(test)
    (folder / "test.beam5.json").write_text("{}")
    assert plan.is_done(test)


def test_a_stage_with_other_settings_is_not_taken_for_this_one(tmp_path):
    save(protocol(tmp_path), PlannedStage("base", 1, "base"), 0.3)
    with pytest.raises(FailureError, match=r"was made with optimizer.epochs = 20, and 7 is requested now"):
        protocol(tmp_path, base={"epochs": 7}).is_done(PlannedStage("base", 1, "base"))
    assert protocol(tmp_path, threads=2).is_done(PlannedStage("base", 1, "base"))


def test_a_base_goes_on_for_more_epochs_until_something_was_tuned_from_it(tmp_path):
    plan, base = protocol(tmp_path), PlannedStage("base", 1, "base")
    save(plan, base, 0.3)
    longer = protocol(tmp_path, base={"epochs": 30})
    assert not longer.is_done(base)
    with pytest.raises(FailureError, match=r"was made with optimizer.clip = 5.0, and 1.0 is requested now"):
        protocol(tmp_path, base={"epochs": 30, "clip": 1.0}).is_done(base)
    save(plan, plan.tries(1, "ce")[0], 0.3)
    with pytest.raises(FailureError, match=r"was made with optimizer.epochs = 20, and 30 is requested now"):
        longer.is_done(base)


@pytest.mark.parametrize(("rate", "name"), [(1e-4, "1e-4"), (3e-5, "3e-5"), (2.5e-4, "2.5e-4"), (0.1, "1e-1")])
def test_learning_rates_have_short_names(rate, name):
    assert rate_name(rate) == name


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_settings(name):
    config = configured(PRESETS[name], None, {"seeds": 4})
    assert config.seeds == 4
    assert config.base.early_stopping > 0


def test_wmt14_has_the_model_of_table_2():
    config = configured(PRESETS["wmt14"], None, {})
    assert (config.model.hidden, config.model.encoder_layers, config.model.decoder_layers) == (512, 2, 2)
    assert list(config.branches) == ["ce", "bound", "exact"]


def test_an_unknown_preset_is_wrong_usage():
    with pytest.raises(UsageError, match="preset is 'multi'; expected one of builtin, tiny, multi30k"):
        preset("multi", PRESETS)
