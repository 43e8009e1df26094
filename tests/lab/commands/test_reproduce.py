"""``bleugrad reproduce``: its files and messages, and that a killed and resumed run has the same results."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bleugrad.lab.commands.main import main
from tests.lab.training.corpora import write_corpus

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
STAGES = 2 * (1 + 1 + 2 * (2 + 1))


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Two seeds, two branches, two learning rates, on a few dozen sentences."""
    corpus = write_corpus(tmp_path_factory.mktemp("corpus"), train=96, valid=8, test=12)
    mix = corpus / "mix.toml"
    mix.write_text('[branches.mix.objective]\nname = "exact"\ncross_entropy_weight = 0.1\n')
    return [
        *["--data-corpus", "files", "--data-directory", str(corpus), "--data-min-count", "1", "--data-batch-size", "8"],
        *["--model-hidden", "8", "--model-embedding", "8", "--base-epochs", "14", "--base-learning-rate", "0.03"],
        *["--base-early-stopping", "0"],
        *["--tuning-epochs", "1", "--tuning-factors", "1", "10", "--tuning-learning-rate", "1e-3"],
        *["--config", str(mix), "--branches", "ce,mix", "--seeds", "2", "--resamples", "100"],
        *["--device", "cpu", "--checkpoint-every", "2"],
    ]


@pytest.fixture(scope="module")
def finished(options, tmp_path_factory):
    path = tmp_path_factory.mktemp("reproduce") / "run"
    assert main(["reproduce", *options, "--jobs", "2", "--output", str(path)]) == 0
    return path


def results(path):
    """The summary without times."""
    summary = json.loads((path / "summary.json").read_text())
    for runs in summary["runs"].values():
        for run in runs:
            del run["seconds_per_epoch"]
    return summary


@pytest.mark.slow
def test_every_stage_is_a_run_of_its_own_with_a_log(finished):
    stages = {str(path.parent.relative_to(finished)) for path in finished.glob("seed-*/*/run.json")}
    tries = [f"{label}-lr{rate}" for label in ("ce", "mix") for rate in ("1e-3", "1e-2")]
    assert stages == {f"seed-{seed}/{name}" for seed in (1, 2) for name in ("base", *tries)}
    assert len(list(finished.glob("seed-*/*/evaluations/test.beam5.txt"))) == 2 * 3
    assert "epoch 1: loss" in (finished / "logs" / "seed-1.base.txt").read_text()
    assert "epoch 1: loss" in (finished / "seed-1" / "base" / "log.txt").read_text()


@pytest.mark.slow
def test_the_log_tells_the_number_of_stages_the_time_left_and_the_results(finished):
    log = (finished / "log.txt").read_text()
    lines = log.splitlines()
    assert lines[0] == f"stages: {STAGES} (base runs 2, tuning runs 8, tests 6); in parallel: 2"
    assert lines[1] == f"output of each stage: {finished / 'logs'}"
    assert lines[2].startswith(f"[ 1/{STAGES}] seed-")
    assert "base: valid BLEU" in lines[2]
    assert "left" in lines[2]
    assert f"[{STAGES}/{STAGES}]" in log
    assert "mean ± standard deviation of 2 seeds" in log
    assert lines[-1] == f"report: {finished / 'report.html'}"


@pytest.mark.slow
def test_the_branches_start_from_the_best_weights_of_the_base(finished):
    for seed in (1, 2):
        best = json.loads((finished / f"seed-{seed}" / "base" / "summary.json").read_text())["best_bleu"]
        for tried in (finished / f"seed-{seed}").glob("*-lr*"):
            history = json.loads((tried / "summary.json").read_text())["history"]
            assert history[0]["epoch"] == 0
            assert history[0]["bleu"] == best


@pytest.mark.slow
def test_the_summary_holds_what_the_stages_saved(finished):
    summary = results(finished)
    assert summary["seeds"] == [1, 2]
    for label, runs in summary["runs"].items():
        for place, run in enumerate(runs):
            scores = json.loads((finished / run["directory"] / "evaluations" / "test.greedy.json").read_text())
            assert run["test"]["greedy"]["bleu"] == scores["bleu"]
            if label != "base":
                assert run["best_bleu"] == max(one["best_bleu"] for one in run["tries"])
            assert place + 1 == run["seed"]
    means = summary["scores"]["greedy"]["systems"]["mix"]
    values = [run["test"]["greedy"]["bleu"] for run in summary["runs"]["mix"]]
    assert means["mean"] == pytest.approx(sum(values) / 2)
    assert means["std"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    low, high = means["interval"]
    assert low <= high
    assert [len(search["pairs"]) for search in summary["scores"].values()] == [3, 3]


@pytest.mark.slow
def test_what_is_done_is_not_done_again_and_a_lost_page_is_drawn_again(finished, options, capsys):
    before = results(finished)
    times = {path: path.stat().st_mtime_ns for path in finished.glob("seed-*/*/run.json")}
    (finished / "report.html").unlink()
    assert main(["reproduce", *options, "--output", str(finished)]) == 0
    assert f"already done: {STAGES}" in capsys.readouterr().out
    assert results(finished) == before
    assert {path: path.stat().st_mtime_ns for path in finished.glob("seed-*/*/run.json")} == times
    assert (finished / "report.html").exists()


@pytest.mark.slow
def test_a_report_needs_no_stage(finished, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy, ignore=shutil.ignore_patterns("seed-*", "report.html", "figures"))
    assert main(["report", str(copy)]) == 0
    assert (copy / "report.html").read_bytes() == (finished / "report.html").read_bytes()


@pytest.mark.slow
def test_other_settings_in_the_same_directory_are_refused(finished, options, capsys):
    before = results(finished)
    assert main(["reproduce", *options, "--base-epochs", "7", "--output", str(finished)]) == 1
    assert results(finished) == before
    assert "was made with optimizer.epochs = 14, and 7 is requested now" in capsys.readouterr().err


@pytest.mark.slow
def test_bases_alone_go_on_for_more_epochs(finished, options, tmp_path):
    copy, base = tmp_path / "copy", Path("seed-1", "base")
    shutil.copytree(finished, copy, ignore=shutil.ignore_patterns("*-lr*"))
    assert main(["reproduce", *options, "--seeds", "1", "--base-epochs", "16", "--output", str(copy)]) == 0
    summary, before = (json.loads((run / base / "summary.json").read_text()) for run in (copy, finished))
    assert summary["history"][:14] == before["history"]
    assert summary["epochs"] == 16
    assert json.loads((copy / base / "run.json").read_text())["resumed"]


@pytest.mark.slow
def test_a_failing_stage_is_named_with_its_log(finished, options, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    shutil.rmtree(copy / "seed-1" / "ce-lr1e-3")
    (copy / "seed-1" / "base" / "checkpoints" / "best.safetensors").write_bytes(b"no checkpoint")
    assert main(["reproduce", *options, "--output", str(copy)]) == 1
    error = capsys.readouterr().err
    assert "seed-1/ce-lr1e-3 failed" in error
    assert "no checkpoint at all" in error
    log = copy / "logs" / "seed-1.ce-lr1e-3.txt"
    assert str(log) in error
    assert "no checkpoint at all" in log.read_text()
    assert json.loads((copy / "run.json").read_text())["status"] == "failed"


@pytest.mark.slow
def test_a_run_taken_up_again_knows_the_time_left(finished, options, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    shutil.rmtree(copy / "seed-2" / "mix-lr1e-2")
    shutil.rmtree(copy / "seed-2" / "mix-lr1e-3")
    assert main(["reproduce", *options, "--output", str(copy)]) == 0
    first = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("["))
    assert first.startswith(f"[{STAGES - 2}/{STAGES}] seed-2/mix-lr1e-3: valid BLEU")
    assert first.endswith("left")
    assert results(copy) == results(finished)


@pytest.mark.slow
def test_overwriting_removes_every_stage(finished, options, tmp_path):
    from bleugrad.lab.experiments.paper.study import remove_stages

    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    (copy / "seed-1" / "notes").mkdir()
    remove_stages(copy)
    assert [path.name for path in copy.glob("seed-*/*")] == ["notes"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--jobs", "0"], 2, "jobs is 0; expected at least 1"),
        (["--preset", "none"], 2, "preset is 'none'; expected one of builtin"),
        (["--branches", "ce,exacct"], 2, "branches: 'exacct' is not known; did you mean 'exact'?"),
        (["--data-corpus", "files", "--data-directory", "absent"], 2, "directory is 'absent', which is not a folder"),
    ],
)
def test_mistakes_are_one_line(words, code, message, tmp_path, capsys):
    assert main(["reproduce", *words, "--output", str(tmp_path / "run")]) == code
    assert message in capsys.readouterr().err


def test_two_processes_do_not_share_a_directory(tmp_path, capsys):
    from bleugrad.lab.runs.lock import locked

    with locked(tmp_path / "run"):
        assert main(["reproduce", "--output", str(tmp_path / "run")]) == 1
    assert f"is in use by process {os.getpid()} on " in capsys.readouterr().err


def start(options, path):
    command = [sys.executable, "-m", "bleugrad", "reproduce", *options, "--jobs", "2", "--output", str(path)]
    return subprocess.Popen(
        command,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it otherwise
    )


def wait_for(condition, what):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"no {what} after two minutes")


def workers_of(process):
    children = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    return [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def abouts(path):
    return {stage: json.loads(stage.read_text()) for stage in path.glob("seed-*/*/run.json")}


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the workers are found by Linux's /proc")
def test_killed_and_interrupted_it_ends_with_the_same_results(finished, options, tmp_path):
    path = tmp_path / "run"

    process = start(options, path)
    wait_for(lambda: (path / "seed-1" / "base" / "checkpoints" / "last.safetensors").exists(), "checkpoint")
    os.kill(workers_of(process)[0], signal.SIGKILL)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "failed: its process was killed by signal 9; its log: " in error

    process = start(options, path)
    done = len(list(path.glob("seed-*/*/summary.json")))
    wait_for(lambda: len(list(path.glob("seed-*/*/summary.json"))) > done, "further stage")
    workers = workers_of(process)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    wait_for(lambda: not any(map(is_alive, workers)), "end of the workers")

    killed = {stage: about for stage, about in abouts(path).items() if about["status"] == "running"}

    process = start(options, path)
    wait_for(lambda: all(abouts(path)[stage] != about for stage, about in killed.items()), "resume of killed stages")
    done = len(list(path.glob("seed-*/*/summary.json")))
    wait_for(lambda: len(list(path.glob("seed-*/*/summary.json"))) > done, "further stage")
    for _ in range(2):  # the second one comes while it waits for its workers
        process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    assert json.loads((path / "run.json").read_text())["status"] == "interrupted"
    assert {about["status"] for about in abouts(path).values()} <= {"finished", "interrupted"}

    assert main(["reproduce", *options, "--jobs", "2", "--output", str(path)]) == 0
    assert results(path) == results(finished)


@pytest.mark.slow
def test_one_pass_models_are_tested_without_a_beam(options, tmp_path):
    small = [*options, "--model-kind", "ctc", "--base-epochs", "1", "--seeds", "1", "--tuning-factors", "1"]
    assert main(["reproduce", *small, "--output", str(tmp_path / "run")]) == 0
    summary = results(tmp_path / "run")
    assert summary["searches"] == ["greedy"]
    assert set(summary["scores"]) == {"greedy"}
    assert not list(tmp_path.glob("run/seed-*/*/evaluations/*beam*"))
