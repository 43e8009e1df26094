"""train, tune, evaluate and translate, as a user types them."""

import io
import json
import os
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bleugrad.lab.commands import translate as translate_command
from bleugrad.lab.commands.main import main
from bleugrad.lab.commands.train import show_next
from bleugrad.lab.commands.translate import arriving_lines
from bleugrad.lab.data.checksums import verify_sums
from bleugrad.lab.data.preparation import prepare
from bleugrad.lab.errors import FailureError
from bleugrad.lab.settings.loading import read_toml
from bleugrad.lab.training.objectives.config import CrossEntropyConfig, ExpectedConfig, RecommendedConfig
from bleugrad.lab.training.run import read_config
from bleugrad.lab.training.system import load
from bleugrad.lab.training.vocabularies import Vocabularies

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
SMALL = "--data-batch-size 8 --data-min-count 1 --model-embedding 6 --model-hidden 6 --optimizer-epochs 1".split()


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "small"
    assert main(train_words(corpus, path)) == 0
    return path


def train_words(corpus, path, *more):
    files = ["--data-corpus", "files", "--data-directory", str(corpus)]
    return ["train", *files, *SMALL, "--device", "cpu", "--output", str(path), *more]


def test_the_command_in_run_json_repeats_the_run(run, tmp_path, monkeypatch):
    program, *words = json.loads((run / "run.json").read_text())["command"].split()
    assert program == "bleugrad"
    words[words.index("--output") + 1] = str(tmp_path / "again")
    assert main(words) == 0
    for name in ("metrics.jsonl", "checkpoints/best.safetensors", "summary.json"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()


def test_only_the_first_process_says_where_the_run_is(monkeypatch, capsys):
    for rank, times in (("0", 1), ("1", 0)):
        monkeypatch.setenv("RANK", rank)
        show_next(Path("runs") / "my run")
        assert capsys.readouterr().out == times * "run: runs/my run; score it with: bleugrad evaluate 'runs/my run'\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], RecommendedConfig()),
        (["--objective", "recommended", "--objective-sharpness", "1"], RecommendedConfig(sharpness=1.0)),
        (["--objective-end-positions", "2"], RecommendedConfig(end_positions=2)),
        (["--objective", "exact"], ExpectedConfig()),
        (["--objective", "exact", "--objective-level", "sentence"], ExpectedConfig(level="sentence")),
        (["--objective", "ce"], CrossEntropyConfig()),
        (["--config", "FILE"], ExpectedConfig("bound")),
        (["--config", "FILE", "--objective-level", "sentence"], ExpectedConfig("bound", level="sentence")),
    ],
)
def test_tuning_uses_the_recipe_unless_another_objective_is_named(run, words, expected, tmp_path):
    """The command of run.json makes the same settings."""
    (tmp_path / "file.toml").write_text('[objective]\nname = "bound"\n')
    words = [str(tmp_path / "file.toml") if word == "FILE" else word for word in words]
    tuned = tmp_path / "tuned"
    assert main(["tune", str(run), "--optimizer-epochs", "1", *words, "--output", str(tuned)]) == 0
    config = read_config(tuned)
    assert config.objective == expected
    _, *again = json.loads((tuned / "run.json").read_text())["command"].split()
    assert main([*again, "--overwrite"]) == 0
    assert read_config(tuned) == config


def test_tuning_keeps_the_label_smoothing_of_the_run(run, tmp_path):
    smoothed, tuned = tmp_path / "smoothed", tmp_path / "tuned"
    words = ["--objective", "ce", "--objective-label-smoothing", "0.2", "--optimizer-epochs", "1"]
    assert main(["tune", str(run), *words, "--output", str(smoothed)]) == 0
    for more, expected in (([], 0.2), (["--objective-label-smoothing", "0.1"], 0.1)):
        words = ["--optimizer-epochs", "1", *more, "--output", str(tuned), "--overwrite"]
        assert main(["tune", str(smoothed), *words]) == 0
        assert read_config(tuned).objective == RecommendedConfig(label_smoothing=expected)


def test_tuning_makes_a_run_of_its_own(run, capsys):
    assert main(["tune", str(run), "--optimizer-epochs", "1"]) == 0
    tuned = run.with_name("small-recommended")
    assert capsys.readouterr().out.endswith(f"\nrun: {tuned}; score it with: bleugrad evaluate {tuned}\n")
    config, before = read_toml(tuned / "config.toml"), read_toml(run / "config.toml")
    assert config["objective"]["name"] == "recommended"
    assert config["optimizer"]["learning_rate"] == 1e-3
    assert config["model"] == before["model"]
    assert config["data"] == before["data"]
    assert json.loads((tuned / "run.json").read_text())["study"] == "tune"
    assert (tuned / "vocabulary.source.json").read_bytes() == (run / "vocabulary.source.json").read_bytes()


def test_tuning_into_a_run_that_is_in_use_is_refused(run, tmp_path, capsys):
    from bleugrad.lab.runs.lock import locked

    with locked(tmp_path / "tuned"):
        assert main(["tune", str(run), "--output", str(tmp_path / "tuned")]) == 1
        assert [path.name for path in (tmp_path / "tuned").iterdir()] == [".lock"]
    assert f"tuned is in use by process {os.getpid()} on " in capsys.readouterr().err


@pytest.fixture(scope="module")
def distilled(run):
    assert main(["distil", str(run), "--beam", "2", "--device", "cpu"]) == 0
    return run.with_name("small-distilled")


def test_a_distilled_corpus_has_translations_as_first_references(run, corpus, distilled):
    data = read_config(run).data
    before, after = prepare(data), prepare(replace(data, directory=str(distilled)))
    assert (after.train.sources, after.valid, after.test) == (before.train.sources, before.valid, before.test)
    found = load(run, "cpu").translate(before.train.sources, 2)
    for best, old, new in zip(found, before.train.references, after.train.references, strict=True):
        assert new == tuple(filter(None, (best, *old)))
    assert verify_sums(distilled) == 6


def test_a_distilled_corpus_trains_a_model_that_is_tuned_on_the_old_one(run, corpus, distilled, tmp_path):
    """The command of the tuned run says so, also if its corpus is the default."""
    small = ["--optimizer-epochs", "1", "--device", "cpu"]
    words = train_words(distilled, tmp_path / "graph", "--model-kind", "graph", "--model-heads", "2")
    assert main(words) == 0
    texts = [Vocabularies.read(path).target.tokens for path in (tmp_path / "graph", run)]
    assert set(texts[0]) == set(texts[1])
    old = ["--data-corpus", "files", "--data-directory", str(corpus)]
    assert main(["tune", str(tmp_path / "graph"), *old, *small, "--output", str(tmp_path / "tuned")]) == 0
    assert read_config(tmp_path / "tuned").data.directory == str(corpus)
    other = ["--data-corpus", "builtin", "--data-builtin-train", "50", "--data-builtin-valid", "5"]
    assert main(["tune", str(tmp_path / "graph"), *other, *small, "--output", str(tmp_path / "other")]) == 0
    data = read_config(tmp_path / "other").data
    assert (data.corpus, data.directory) == ("builtin", "")
    assert " --data-corpus builtin " in json.loads((tmp_path / "other" / "run.json").read_text())["command"]


def test_a_distilled_corpus_is_replaced_only_on_request(run, distilled, capsys):
    texts = {path.name: path.read_bytes() for path in distilled.iterdir()}
    assert main(["distil", str(run), "--beam", "2"]) == 1
    assert (
        f"{distilled} holds a corpus; choose another --output, or replace it with --overwrite"
        in capsys.readouterr().err
    )
    (distilled / "train.en").write_text("")
    assert main(["distil", str(run), "--beam", "2", "--overwrite"]) == 0
    assert {path.name: path.read_bytes() for path in distilled.iterdir()} == texts
    (distilled / "letter.txt").write_text("mine")
    assert main(["distil", str(run), "--beam", "2", "--overwrite"]) == 1
    assert f"{distilled} holds 'letter.txt', which is not of this corpus" in capsys.readouterr().err
    (distilled / "letter.txt").unlink()


def test_evaluation_shows_scores_with_their_signature(run, capsys):
    assert main(["evaluate", str(run), "--split", "test", "--beam", "2"]) == 0
    shown = capsys.readouterr().out
    for text in (
        "test, 5 sentences, beam 2: BLEU ",
        "length ratio",
        "BP ",
        "chrF ",
        "nrefs:1|case:mixed|eff:no|tok:none",
    ):
        assert text in shown
    assert len((run / "evaluations" / "test.beam2.txt").read_text().splitlines()) == 5
    assert main(["evaluate", str(run), "--split", "tests"]) == 2
    assert "split is 'tests'; expected one of train, valid, test" in capsys.readouterr().err


@pytest.fixture
def translate(run, monkeypatch, capfd):
    """Exit code, output and complaints of the command, given its input."""

    def translate(text, *more):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        code = main(["translate", str(run), *more])
        return code, *capfd.readouterr()

    return translate


def test_translation_keeps_the_number_of_lines(translate):
    lines = "ich sehe katze\n\nnie gehoertes wort\nwir\r\n\u2028\nkatze ".encode() + b"katze " * 9999 + b"\nlast line"
    code, shown, said = translate(lines, "--beam", "1")
    assert code == 0
    assert shown.count("\n") == 7
    assert shown.split("\n")[1] == shown.split("\n")[4] == ""
    assert said == "bleugrad translate: line 6 has 10000 tokens; only the first 1000 are translated\n"


def test_what_was_read_before_a_broken_line_is_translated(translate):
    code, shown, said = translate(b"ich sehe katze\nwir\nk\xe4tze\nwir\n")
    assert code == 1
    assert shown.count("\n") == 2
    assert said == "bleugrad translate: line 3 of the input is not UTF-8: byte 2 is 0xe4\n"


def test_scores_and_n_best_come_in_columns(translate):
    rows = [
        line.split("\t") for line in translate(b"ich sehe katze\n\n", "--n-best", "3", "--beam", "4")[1].splitlines()
    ]
    assert [row[0] for row in rows] == ["1", "1", "1", "2"]
    assert all(float(row[1]) <= 0 for row in rows)
    code, shown, said = translate(b"wir\n", "--n-best", "9")
    assert (code, shown) == (2, "")
    assert "n_best is 9; expected 1 to beam = 5, the width of the search" in said


def test_a_line_is_answered_before_the_next_is_typed(run):
    command = [sys.executable, "-m", "bleugrad", "translate", str(run)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as process:
        for line in (b"wir\n", b"ich sehe katze\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 60)[0], "no answer within a minute"
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0


def test_lines_come_in_groups_where_they_wait():
    assert list(arriving_lines(io.BytesIO(b"a\nb\r\nc\n\nd"), 2)) == [["a", "b"], ["c", ""], ["d"]]
    assert list(arriving_lines(io.BytesIO(b""), 2)) == []
    groups = arriving_lines(io.BytesIO(b"a\n\xff\n"), 2)
    assert next(groups) == ["a"]
    with pytest.raises(FailureError, match="line 2 of the input is not UTF-8: byte 1 is 0xff"):
        next(groups)


def test_input_without_lines_ends(monkeypatch):
    monkeypatch.setattr(translate_command, "MOST_BYTES", 100)
    groups = arriving_lines(io.BytesIO(b"a\n" + b"x" * 101), 2)
    assert next(groups) == ["a"]
    with pytest.raises(FailureError, match="line 2 of the input has more than 100 bytes"):
        next(groups)
    assert list(arriving_lines(io.BytesIO(b"x" * 100), 2)) == [["x" * 100]]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["train", "--preset", "huge"], 2, "preset is 'huge'; expected one of tiny, multi30k, iwslt14, wmt14"),
        (["train", "--model-hiden", "3"], 2, "unknown option '--model-hiden'; did you mean '--model-hidden'?"),
        (["train", "--objective", "exakt"], 2, "objective.name is 'exakt'; expected 'ce' or 'bound'"),
        (["train", "--config", "bad.toml"], 2, "bad.toml: unknown setting 'model.hiden'; did you mean 'model.hidden'?"),
        (["train", "--objective-feeding", "greedy"], 2, "objective.feeding is 'greedy'; expected 'reference' or"),
        (
            ["train", "--objective", "exact", "--objective-samples", "3"],
            2,
            "objective.samples is a setting of reinforce, mrt, unbiased, not of 'exact'; ",
        ),
        (["train", "--data-corpus", "files", "--data-directory", "absent"], 2, "directory is 'absent'"),
        (["tune", "absent"], 1, "absent holds no run"),
        (["evaluate", "absent"], 1, "absent holds no run"),
        (["evaluate", "absent", "--beam", "0"], 2, "beam is 0; expected at least 1"),
        (["translate", "absent"], 1, "absent holds no run"),
        (["distil", "absent"], 1, "absent holds no run"),
        (["translate", "absent", "--n-best", "-1"], 2, "n_best is -1; expected at least 0"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(words, code, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("[model]\nhiden = 3\n")
    assert main(words) == code
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


def test_settings_come_from_preset_then_file_then_options(tmp_path):
    from bleugrad.lab.settings.loading import layered
    from bleugrad.lab.training.config import TrainConfig
    from bleugrad.lab.training.presets import PRESETS, preset

    (tmp_path / "file.toml").write_text("[model]\nhidden = 32\nembedding = 16\n")
    config = layered(TrainConfig, preset("tiny"), tmp_path / "file.toml", {"model": {"embedding": 8}})
    assert (config.model.hidden, config.model.embedding, config.data.corpus) == (32, 8, "tatoeba_tiny")
    for name in PRESETS:
        layered(TrainConfig, preset(name), None, {})


def test_resume_goes_on_with_the_settings_of_the_run(corpus, tmp_path, capsys):
    assert main(train_words(corpus, tmp_path / "run", "--seed", "3")) == 0
    assert main(["train", "--resume", "--output", str(tmp_path / "run"), "--optimizer-epochs", "2"]) == 0
    assert "resumed at step" in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["epochs"] == 2
    assert main(["train", "--resume", "--output", str(tmp_path / "run"), "--seed", "4"]) == 2
    assert "seed is 4, and 3 in the run" in capsys.readouterr().err
