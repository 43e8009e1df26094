"""The command line: help without torch, exit codes, and no traceback for a user's mistake."""

import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from bleugrad import __version__
from bleugrad.lab.commands import toy
from bleugrad.lab.commands.main import COMMANDS, build_parser, main
from bleugrad.lab.errors import FailureError

SMALL = "--orders 1 --vocabulary 20 --length 3 --seeds 1 --steps 2 --samples 5 --repeats-cases 0".split()
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def run_process(*words, **more):
    command = [sys.executable, *words]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, **more)


@pytest.mark.parametrize("words", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_is_shown_without_loading_torch(words):
    script = f"""
import sys
from bleugrad.lab.commands.main import main
try:
    main({words!r})
except SystemExit as stop:
    code = stop.code
assert code == 0, code
heavy = {{"torch", "numpy", "matplotlib", "tqdm"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = run_process("-c", script)
    assert done.returncode == 0, done.stderr
    assert "bleugrad" in done.stdout


def test_the_module_is_the_program():
    done = run_process("-m", "bleugrad", "--version")
    assert (done.returncode, done.stdout) == (0, f"bleugrad {__version__}\n")


def test_help_shows_every_setting_with_its_default_and_an_example(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["toy", "--help"])
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        "--vocabulary INT size of the vocabulary (default: 10000)",
        "--orders INT [INT ...] orders N of BLEU-N (default: 1 2 4)",
        "--method {bound,exact}",
        "--repeats-cases",
        "(default: runs/toy)",
        "--seed",
        "--config",
        "example: bleugrad toy",
    ):
        assert text in shown


def shown_help(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    return capsys.readouterr().out


def test_the_list_of_commands_has_each_summary_beside_its_name(capsys, monkeypatch):
    shown = shown_help([], capsys, monkeypatch)
    for name, module in COMMANDS.items():
        assert f"    {name:<10} {module.SUMMARY[:40]}" in shown


def test_usage_is_one_line_and_does_not_list_the_settings(capsys, monkeypatch):
    assert shown_help(["train"], capsys, monkeypatch).startswith("usage: bleugrad train [OPTION ...]\n\n")
    assert shown_help(["tune"], capsys, monkeypatch).startswith("usage: bleugrad tune [OPTION ...] RUN\n\n")
    with pytest.raises(SystemExit):
        main(["train", "--optimizer-epochs", "many"])
    assert capsys.readouterr().err.count("\n") == 2


def test_the_help_of_tune_shows_defaults_only_where_they_are_not_those_of_the_run(capsys, monkeypatch):
    lines = " ".join(shown_help(["tune"], capsys, monkeypatch).split()).replace("one- pass", "one-pass")
    shown, objective = lines.split(" objective: --objective-name")
    assert shown.count("(default:") == 10
    one_pass = ("0.001; one-pass models: 0.0005", "3; one-pass models: 8", "step; one-pass models: cosine")
    for default in ("recommended; exact for one-pass models", "RUN-OBJECTIVE", *one_pass, "0.3", "0", "1"):
        assert f"(default: {default})" in shown
    for default in (
        "(default: recommended)",
        "(default: 1.0; recommended: 2.0) [bound, exact, clipped_mean, recommended,",
    ):
        assert default in objective


def test_examples_in_the_help_can_be_parsed():
    parser, _ = build_parser()
    for name, module in COMMANDS.items():
        program, *words = shlex.split(module.EXAMPLE)
        assert program == "bleugrad"
        assert parser.parse_args(words).command == name


def test_no_command_shows_the_help_and_is_wrong_usage(capsys):
    assert main([]) == 2
    assert "toy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["toy", "--step", "5"], "unknown option '--step'; did you mean '--steps'?"),
        (["toy", "extra"], "unexpected argument 'extra'"),
        (["toy", "--vocabulary", "1"], "vocabulary is 1; expected at least 2"),
        (["toy", "--orders", "11"], "orders is (11,); expected at most length = 10"),
        (["toy", "--orders", "2", "2"], "expected each order once"),
        (["toy", "--learning-rate", "nan"], "learning_rate is nan; expected a finite number"),
        (["toy", "--repeats-length", "9"], "repeats.vocabulary is 5; expected at least length = 9"),
        (["toy", "--repeats-vocabulary", "60"], "repeats.vocabulary is 60 and length 5"),
        (["toy", "--config", "absent.toml"], "cannot read absent.toml: No such file"),
        (["toy", "--seed", "9" * 400], "seed is a whole number of 1329 bits"),
        (["toy", "--orders", str(2**63)], "orders is a whole number of 64 bits"),
        (["toy", "--output", "\udcff"], "output is '\\udcff'; expected UTF-8 text without NUL"),
        (["train", "--threads", str(2**31)], "threads is 2147483648; expected at most 1024"),
        (["train", "--objective", "exact", "--objective-sharpness", "1e39"], "objective.sharpness is 1e+39; expected"),
        (
            ["train", "--objective", "exact", "--objective-max-order", str(2**63)],
            "objective.max_order is a whole number of 64 bits",
        ),
        (["train", "--objective-temperature", "1e-45"], "expected 0, or at least 1e-30"),
        (["translate", "run", "--beam", str(2**31)], "beam is 2147483648; expected at most 2147483647"),
        (["translate", "run", "--skip-penalty", "1e39"], "skip_penalty is 1e+39; expected at most 1e+30"),
        (["report", "a\0b"], "directory is 'a\\x00b'; expected UTF-8 text without NUL"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown
    assert list(tmp_path.iterdir()) == [], "nothing is written before the settings are right"


@pytest.mark.parametrize("words", [["toys"], ["toy", "--steps", "many"], ["toy", "--method", "best"], ["report"]])
def test_what_argparse_refuses_is_exit_code_2_too(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_a_wrong_key_in_the_file_names_file_and_key(tmp_path, capsys):
    (tmp_path / "toy.toml").write_text("stepps = 3\n")
    assert main(["toy", "--config", str(tmp_path / "toy.toml")]) == 2
    assert "toy.toml: unknown setting 'stepps'; did you mean 'steps'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "absent"], "absent holds no run"),
        (["toy", *SMALL, "--output", "taken"], "taken is a file"),
        (["toy", *SMALL, "--output", "taken/run"], "cannot write the run to taken/run: Not a directory"),
        (["data", "--corpus", "multi30k", "--directory", "~nouser"], "the home directory of ~ is unknown"),
    ],
)
def test_a_failure_is_one_line_and_exit_code_1(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    assert main(words) == 1
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown
    assert len(shown.splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FailureError("in words"), "bleugrad toy: in words"),
        (OSError(28, "No space left on device", "here"), "bleugrad toy: here: No space left on device"),
        (MemoryError(), "bleugrad toy: not enough memory for these settings"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "not enough memory"),
        (RuntimeError("Storage size calculation overflowed with sizes=[2147483647, 2147483647]"), "not enough memory"),
    ],
)
def test_what_the_machine_refuses_is_said_in_words(error, message, capsys, tmp_path, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(toy, "require_extra", fail)
    assert main(["toy", *SMALL, "--output", str(tmp_path / "run")]) == 1
    assert message in capsys.readouterr().err


def test_a_bug_is_not_hidden(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(toy, "require_extra", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["toy", *SMALL, "--output", str(tmp_path / "run")])


@pytest.mark.parametrize(("number", "name"), [(0, "input"), (1, "output"), (2, "error")])
def test_a_closed_standard_stream_is_one_line(number, name):
    done = run_process("-m", "bleugrad", "data", preexec_fn=lambda: os.close(number))
    message = f"bleugrad: standard {name} is closed; redirect it, for example to {os.devnull}\n"
    assert (done.returncode, done.stdout + done.stderr) == (1, message)


def test_a_missing_extra_is_named_with_the_command_that_installs_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bleugrad.lab.extras.find_spec", lambda name: None)
    assert main(["toy", *SMALL, "--output", str(tmp_path / "run")]) == 1
    assert "needs matplotlib, which is not installed; install it with: pip install 'bleugrad[plots]'" in (
        capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == [], "nothing is written"


@pytest.mark.parametrize(
    ("ending", "code", "line"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "interrupted by SIGTERM"),
        (signal.SIGHUP, 129, "interrupted by SIGHUP"),
    ],
)
def test_a_signal_is_a_short_line_and_leaves_an_interrupted_run(tmp_path, ending, code, line):
    output = tmp_path / "run"
    words = ["-m", "bleugrad", "toy", "--seeds", "1000", "--vocabulary", "100", "--output", str(output)]
    process = subprocess.Popen(
        [sys.executable, *words],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(ending, signal.SIG_DFL),  # a background job ignores some
    )
    deadline = time.monotonic() + 60
    metrics = output / "metrics.jsonl"
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(ending)
    shown = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert shown.splitlines()[-1] == f"bleugrad toy: {line}"
    assert "Traceback" not in shown
    assert '"status": "interrupted"' in (output / "run.json").read_text()
    assert metrics.read_text().endswith("}\n")
