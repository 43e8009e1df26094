"""One-pass models in training: their objectives, and runs from start to translation."""

import io
import json
import math
import shutil

import pytest
import torch

import bleugrad
from bleugrad.lab.commands.main import main
from bleugrad.lab.data.preparation import prepare_split
from bleugrad.lab.errors import UsageError
from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.settings.loading import build
from bleugrad.lab.special_ids import EOS
from bleugrad.lab.training.config import TrainConfig
from bleugrad.lab.training.evaluation import evaluate
from bleugrad.lab.training.objectives.build import build_objective
from bleugrad.lab.training.run import train_run
from bleugrad.lab.training.skip_penalty import best_penalty
from bleugrad.lab.training.system import load
from tests.lab.training.corpora import objective_config, small_config
from tests.lab.training.test_objectives import TARGETS, make_batch

NAMES = [
    *(("nat", name) for name in ("ce", "exact", "bound", "recommended")),
    *((kind, name) for kind in ("ctc", "graph") for name in ("ce", "exact", "clipped_mean")),
]
SMALL = {"model__hidden": 8, "model__heads": 2, "checkpoint_every": 3}
GLANCING = {"objective__glancing_first": 0.4, "objective__glancing_last": 0.4}  # the same with any number of epochs


def make(kind, **more):
    return build_model(ModelConfig(kind, hidden=8, heads=2, dropout=0.1, **more), 12, 12)


@pytest.mark.parametrize("weight", [0.0, 0.5])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_every_parameter_has_a_gradient_and_an_empty_batch_has_none(seed, kind, name, several, weight):
    model = make(kind)
    objective = build_objective(
        model, objective_config(name, **({} if name == "ce" or weight == 0 else {"cross_entropy_weight": weight}))
    )
    loss = objective(make_batch(several=several))
    assert loss.shape == ()
    assert loss.isfinite()
    loss.backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), parameter_name
        # keys share an offset that no attention sees
        assert parameter.grad.any() or parameter_name.endswith("key_value.bias"), parameter_name
    model.zero_grad()
    objective(make_batch((), several=several)).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{parameter_name}: a process would wait for its gradient for ever"
        assert not parameter.grad.any()


@pytest.mark.parametrize("extra", [1, 4])  # of the four references, one is longer than the positions, or none
def test_positions_after_the_reference_are_labelled_eos(seed, extra):
    model = make("nat", position_factor=0.5, position_extra=extra).eval()
    batch = make_batch()
    logits, positions = model(batch.source, batch.source_lengths)
    total = number = 0.0
    for row, target, count in zip(logits.log_softmax(-1), TARGETS, positions.tolist(), strict=True):
        labels = (target + [EOS] * count)[:count]
        total -= sum(row[place, label].item() for place, label in enumerate(labels))
        number += count
    expected = total / number
    assert build_objective(model, objective_config())(batch).item() == pytest.approx(expected, rel=1e-5)
    mixed = build_objective(model, objective_config(name="exact", cross_entropy_weight=0.5))(batch)
    plain = build_objective(model, objective_config(name="exact"))(batch)
    assert (mixed - plain).item() == pytest.approx(0.5 * expected, rel=1e-4)


def test_expected_bleu_of_rows_has_a_random_length(seed):
    model, batch = make("nat").eval(), make_batch()
    logits, positions = model(batch.source, batch.source_lengths)
    mask = torch.arange(logits.shape[1]) < positions[:, None]
    result = bleugrad.expected_bleu(logits, references=[[target] for target in TARGETS], mask=mask, eos_id=EOS)
    loss = build_objective(model, objective_config(name="exact"))(batch)
    assert loss.item() == pytest.approx(1 - result.value.item(), rel=1e-5)


def test_the_recipe_of_rows_is_that_of_the_losses(seed):
    model, batch = make("nat").eval(), make_batch()
    logits, positions = model(batch.source, batch.source_lengths)
    mask = torch.arange(logits.shape[1]) < positions[:, None]
    labels = torch.tensor([(target + [EOS] * logits.shape[1])[: logits.shape[1]] for target in TARGETS])
    loss = bleugrad.ExpectedBLEULoss.recommended(eos_id=EOS)
    expected = loss(logits, labels, references=[[target] for target in TARGETS], mask=mask)
    torch.testing.assert_close(build_objective(model, objective_config("recommended"))(batch), expected)


def paths(length, symbols):
    return torch.cartesian_prod(*[torch.arange(symbols)] * length).view(-1, length)


def test_likelihood_of_frames_by_enumeration(seed):
    """Two sentences of one source token, six frames: the probability of all paths that collapse to the reference."""
    model = build_model(ModelConfig("ctc", hidden=8, heads=2, upsampling=3), 12, 6).eval().double()
    labels = torch.tensor([[4, 4, EOS], [5, EOS, -100]])
    source, lengths = torch.tensor([[7, 3], [8, 3]]), torch.tensor([2, 1])
    logits, frames = model(source, lengths)
    objective = build_objective(model, objective_config())
    total = 0.0
    for row, label, count in zip(logits.detach().softmax(-1), labels.tolist(), frames.tolist(), strict=True):
        wanted = [token for token in label if token > EOS]
        probability = 0.0
        for path in paths(count, 6).tolist():
            merged = [token for place, token in enumerate(path) if place == 0 or path[place - 1] != token]
            if [token for token in merged if token] == wanted:
                probability += math.prod(row[place, token].item() for place, token in enumerate(path))
        total -= math.log(probability)
    assert objective.likelihood(logits, frames, labels).item() == pytest.approx(total / 3, rel=1e-5)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ({"name": "reinforce"}, "objective.name is 'reinforce' with model.kind 'nat'"),
        ({"name": "exact", "feeding": "greedy"}, "objective.feeding is 'greedy' with model.kind 'nat'"),
        ({"name": "exact", "length": "random"}, "objective.length is 'random' with .* expected 'given'"),
        ({"name": "exact", "end_positions": 2}, "objective.end_positions is 2 with .* expected 0"),
    ],
)
def test_objectives_that_feed_tokens_are_refused(objective, message):
    with pytest.raises(UsageError, match=message):
        build(TrainConfig, {"model": {"kind": "nat"}, "objective": objective})


@pytest.mark.parametrize("kind", ["ctc", "graph"])
def test_words_of_frames_and_paths_are_refused(kind):
    with pytest.raises(UsageError, match="units is 'words' with model"):
        build(TrainConfig, {"model": {"kind": kind}, "objective": {"name": "exact", "units": "words"}})


def test_glancing_is_for_one_pass_models():
    with pytest.raises(UsageError, match="glancing_first or glancing_last is above 0 with 'lstm'; expected 0"):
        build(TrainConfig, {"objective": {"name": "ce", "glancing_last": 0.1}})


@pytest.fixture(scope="module", params=["nat", "ctc", "graph"])
def run(request, corpus, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "run"
    train_run(small_config(corpus, model__kind=request.param, **SMALL, **GLANCING), path)
    return path


def test_train_tune_evaluate_and_translate(run, corpus, capsys, monkeypatch):
    assert main(["tune", str(run), "--objective", "exact", "--optimizer-epochs", "1"]) == 0
    tuned = run.with_name("run-exact")
    assert json.loads((tuned / "summary.json").read_text())["epochs"] == 1
    assert main(["evaluate", str(tuned)]) == 0
    assert "test, 5 sentences, greedy: BLEU " in capsys.readouterr().out
    system = load(tuned)
    lines = (corpus / "test.de").read_text().splitlines()
    together = system.translate(lines)
    assert together == (tuned / "evaluations" / "test.greedy.txt").read_text().splitlines()
    assert together == [system.translate([line])[0] for line in lines]
    if system.config.model.kind != "ctc":
        with pytest.raises(UsageError, match=r"beam is 5 with model\.kind '(nat|graph)', which has no beam search"):
            system.translate(lines, beam=5)
        return
    wide = system.search(lines, beam=5, n_best=3)
    alone = [system.search([line], beam=5, n_best=3)[0] for line in lines]
    assert [[one.text for one in best] for best in wide] == [[one.text for one in best] for best in alone]
    greedy = [best[0].log_prob for best in system.search(lines)]
    assert all(found[0].log_prob >= one for found, one in zip(wide, greedy, strict=True))  # a sum over frames


def test_the_penalty_is_chosen_on_validation_saved_and_can_be_set(run, corpus, capsys):
    system = load(run)
    chosen, unit = json.loads((run / "summary.json").read_text())["skip_penalty"], system.model.penalty_unit
    assert system.model.skip_penalty == chosen
    split = prepare_split(system.config.data, "valid")
    found = {}
    for step in (0, -1, 1, 2, 3, 4, *((8, 16) if chosen > 4 * unit else ())):
        other = load(run, skip_penalty=step * unit)
        assert other.model.skip_penalty == step * unit
        found[step * unit] = evaluate(other, split, "valid").scores.bleu
    assert found[chosen] == max(found.values())
    assert main(["evaluate", str(run)]) == 0
    usual = (run / "evaluations" / "test.greedy.json").read_text()
    assert main(["evaluate", str(run), "--skip-penalty", "2.5", "--precision", "bf16"]) == 0
    assert main(["evaluate", str(run), "--skip-penalty", "2.5"]) == 0
    assert "greedy, skip penalty 2.5: BLEU" in capsys.readouterr().out
    files = {path.name for path in (run / "evaluations").iterdir() if path.name.startswith("test.greedy")}
    names = ("test.greedy", "test.greedy.skip_penalty_2.5", "test.greedy.skip_penalty_2.5.bf16")
    assert files == {f"{name}.{kind}" for name in names for kind in ("txt", "json")}
    assert (run / "evaluations" / "test.greedy.json").read_text() == usual  # which reports of reproduce read
    saved = (run / "evaluations" / "test.greedy.skip_penalty_2.5.txt").read_text().splitlines()
    assert load(run, skip_penalty=2.5).translate((corpus / "test.de").read_text().splitlines()) == saved
    assert main(["translate", str(run), "--skip-penalty", "nan"]) == 2
    assert "skip_penalty is nan; expected a finite number" in capsys.readouterr().err


def test_the_best_penalty_is_the_first_of_the_best():
    model, measured = make("graph"), []

    def measure():
        measured.append(model.skip_penalty)
        return {2: 0.5, 4: 0.5}.get(round(model.skip_penalty / model.penalty_unit), 0.1)

    assert best_penalty(model, 0.3, measure) == 2 * model.penalty_unit
    assert measured == [step * model.penalty_unit for step in (-1, 1, 2, 3, 4)]
    assert best_penalty(model, 0.5, measure) == 0 == model.skip_penalty
    lstm = build_model(ModelConfig("lstm", embedding=4, hidden=4), 12, 12)
    assert best_penalty(lstm, 0.5, measure) == 0


@pytest.mark.parametrize(
    ("scores", "best", "last"),
    [({4: 0.3}, 4, 8), ({4: 0.3, 8: 0.4}, 8, 16), ({4: 0.3, 8: 0.4, 16: 0.5}, 16, 16), ({3: 0.3, 4: 0.3004}, 4, 4)],
)
def test_larger_penalties_are_tried_while_they_help(scores, best, last):
    model, measured = make("graph"), []

    def measure():
        measured.append(round(model.skip_penalty / model.penalty_unit))
        return scores.get(measured[-1], 0.1)

    assert best_penalty(model, 0.2, measure) == best * model.penalty_unit
    assert measured[-1] == last


def test_bfloat16_translates_almost_alike(run, corpus):
    lines = (corpus / "test.de").read_text().splitlines()
    found, half = (load(run, precision=precision).search(lines) for precision in ("32", "bf16"))
    for (one,), (other,) in zip(found, half, strict=True):
        assert other.score == pytest.approx(one.score, abs=0.02)


def test_minimum_bayes_risk_of_a_run(run, corpus, capsys, monkeypatch):
    assert main(["evaluate", str(run), "--search", "mbr"]) == 0
    assert "test, 5 sentences, mbr: BLEU " in capsys.readouterr().out
    lines = (corpus / "test.de").read_text().splitlines()
    assert load(run).translate(lines, search="mbr") == (run / "evaluations/test.mbr.txt").read_text().splitlines()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((corpus / "test.de").read_bytes())))
    assert main(["translate", str(run), "--search", "mbr"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(lines)
    for words in (["--beam", "5"], ["--n-best", "2"]):
        assert main(["translate", str(run), "--search", "mbr", *words]) == 2
    with pytest.raises(UsageError, match="search is 'best'; expected one of beam, mbr"):
        load(run).translate(lines, search="best")


def test_tuning_without_an_objective_uses_the_plain_loss_and_says_so(run, capsys):
    output = run.with_name("default")
    assert main(["tune", str(run), "--optimizer-epochs", "1", "--output", str(output)]) == 0
    config = load(output).config
    assert config.objective.name == "exact"
    assert (config.optimizer.learning_rate, config.optimizer.decay) == (5e-4, "cosine")
    assert capsys.readouterr().out.startswith("objective: exact; the recommended recipe is for models that translate")


def test_commands_refuse_what_one_pass_models_cannot(run, capsys):
    for words, message in (
        (["translate", str(run), "--n-best", "2"], "n_best is 2; expected 1 to beam = 1, the width of the search"),
        (["tune", str(run), "--objective", "mrt"], "objective.name is 'mrt' with model.kind"),
    ):
        assert main(words) == 2
        assert message in capsys.readouterr().err


def test_another_kind_than_that_of_the_weights_is_refused(run, capsys):
    assert main(["tune", str(run), "--model-kind", "lstm", "--output", str(run.with_name("other"))]) == 2
    assert "expected the same architecture to start from its weights" in capsys.readouterr().err
    settings = run / "config.toml"
    before = settings.read_text()
    other = before.replace(f'kind = "{load(run).config.model.kind}"', 'kind = "transformer"').replace("= 0.4", "= 0.0")
    settings.write_text(other)
    assert main(["evaluate", str(run)]) == 1
    settings.write_text(before)
    assert "the architecture (model.kind, layers, tied) is not that of the run" in capsys.readouterr().err


def test_a_run_resumes_to_the_same_weights(run, tmp_path, corpus):
    kind = load(run).config.model.kind
    settings = {"model__kind": kind, **SMALL, **GLANCING}
    train_run(small_config(corpus, optimizer__epochs=1, **settings), tmp_path / "resumed")
    train_run(small_config(corpus, **settings), tmp_path / "resumed", resume=True)
    for name in ("checkpoints/last.safetensors", "metrics.jsonl"):
        assert (tmp_path / "resumed" / name).read_bytes() == (run / name).read_bytes()
    shutil.rmtree(tmp_path / "resumed")


@pytest.mark.parametrize("kind", ["nat", "ctc", "graph", "lstm"])
def test_the_first_epochs_can_train_on_the_likelihood(kind, tmp_path, corpus):
    """The first epoch equals that of a run on the likelihood, the second does not."""

    def losses(name, **more):
        settings = {"model__kind": kind, "objective__name": name, **SMALL, **more}
        summary = train_run(small_config(corpus, **settings), tmp_path / name)
        return [epoch["train_loss"] for epoch in summary["history"]]

    likelihood, scheduled = losses("ce"), losses("exact", objective__likelihood_epochs=1)
    assert likelihood[0] == scheduled[0] > 1 > scheduled[1]
