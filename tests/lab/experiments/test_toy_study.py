"""The whole study: its files and messages, and that the same command gives the same numbers."""

import json

import numpy as np
import pytest

from bleugrad.lab.commands.main import main
from bleugrad.lab.experiments.toy.curves import Measurement, pearson
from bleugrad.lab.experiments.toy.study import summarise_curve
from bleugrad.lab.runs.directory import read_run

SMALL = """--orders 1 2 --vocabulary 30 --length 4 --seeds 2 --steps 20 --learning-rate 0.3 --samples 50
--repeats-cases 4 --repeats-vocabulary 3 --repeats-length 3""".split()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "run"
    assert main(["toy", *SMALL, "--output", str(path)]) == 0
    return path


def test_every_measurement_is_saved_and_summarised(finished):
    run = read_run(finished)
    kinds = [record["kind"] for record in run.records]
    assert kinds.count("curve") == 2 * 2 * 5
    assert kinds.count("case") == 8
    assert kinds.count("example") == 51
    assert [(curve["order"], curve["seed"]) for curve in run.summary["curves"]] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert set(run.summary["repeats"]) == {"distinct", "repeated"}
    curve = [record for record in run.records if record["kind"] == "curve"][:5]
    expected = np.corrcoef([point["bound"] for point in curve], [point["sampled"] for point in curve])[0, 1]
    assert run.summary["curves"][0]["bound"]["pearson"] == pytest.approx(expected)


def test_the_log_says_the_correlations(finished):
    log = (finished / "log.txt").read_text()
    header, bleu_1, bleu_2 = log.splitlines()[:3]
    assert header.split("  ")[-1] == "final E[BLEU]"
    assert bleu_1.startswith("BLEU-1  0.")
    final = [curve["final"]["sampled"] for curve in read_run(finished).summary["curves"] if curve["order"] == 2]
    assert bleu_2.split()[-1] == f"{sum(final) / 2:.4f}"
    assert "\nrepeated words      4 " in log
    assert f"report: {finished / 'report.html'}" in log


def test_the_saved_config_and_the_saved_command_repeat_the_run(finished, tmp_path, monkeypatch):
    monkeypatch.setattr("bleugrad.lab.reports.toy.page.write_report", lambda path: None)
    for words in (
        ["toy", "--config", str(finished / "config.toml")],
        read_run(finished).about["command"].split()[1:],
    ):
        again = tmp_path / str(len(words))
        assert main([*words, "--output", str(again)]) == 0
        for name in ("metrics.jsonl", "summary.json", "config.toml"):
            assert (again / name).read_bytes() == (finished / name).read_bytes(), name


def test_a_finished_run_is_refused_and_replaced_when_told_to(tmp_path, capsys):
    tiny = ["toy", *SMALL, "--repeats-cases", "0", "--orders", "1", "--steps", "1", "--output", str(tmp_path / "run")]
    assert main(tiny) == 0
    assert read_run(tmp_path / "run").summary["repeats"] is None
    assert main(tiny) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert main([*tiny, "--overwrite"]) == 0


def test_the_report_can_be_drawn_again_without_running(finished, tmp_path, capsys):
    page = (finished / "report.html").read_text()
    (finished / "report.html").unlink()
    for figure in (finished / "figures").iterdir():
        figure.unlink()
    assert main(["report", str(finished)]) == 0
    assert "report.html" in capsys.readouterr().out
    assert (finished / "report.html").read_text() == page


def test_an_unknown_study_has_no_report(finished, tmp_path, capsys):
    for file in ("config.toml", "metrics.jsonl", "summary.json"):
        (tmp_path / file).write_bytes((finished / file).read_bytes())
    about = json.loads((finished / "run.json").read_text()) | {"study": "other"}
    (tmp_path / "run.json").write_text(json.dumps(about))
    assert main(["report", str(tmp_path)]) == 1
    assert "a run of 'other' has no report; expected a run of toy or reproduce" in capsys.readouterr().err


def test_the_correlation_is_the_usual_one(rng):
    left, right = rng.normal(size=50), rng.normal(size=50)
    assert pearson(left, right) == pytest.approx(np.corrcoef(left, right)[0, 1], abs=1e-14)
    assert pearson([1, 1, 1], [1, 2, 3]) is None
    assert pearson([1, 2, 3], [5, 5, 5]) is None


def point(step, value, true):
    return Measurement(step, value, value, value, value, 0.0, 1.0, true, 0.0)


def test_the_summary_knows_the_largest_gap_with_its_sign_and_the_end():
    summary = summarise_curve([point(0, 0.1, 0.1), point(1, 0.3, 0.5), point(2, 0.7, 0.6)])
    assert summary["exact"]["largest_gap"] == pytest.approx(-0.2)
    assert summary["final"]["step"] == 2
