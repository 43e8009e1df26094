"""The example programs run: a few steps each, in this process where that is enough."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
STEPS = {"marian.py": 3, "t5.py": 4, "gpt.py": 3, "torchrun.py": 2, "accelerate_loop.py": 2}

pytestmark = pytest.mark.slow
pytest.importorskip("transformers")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs an example as a program, and returns what it prints."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    for shared in ("corpus", "seq2seq", "t5"):  # what examples import from one another is forgotten afterwards
        monkeypatch.setitem(sys.modules, shared, None)
        del sys.modules[shared]

    def call(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other libraries: a reader sees them too
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("name", STEPS)
def test_an_example_runs(run, name):
    pytest.importorskip("accelerate")
    printed = run(name, "--steps", str(STEPS[name]))
    assert re.search(r"(BLEU|loss) \d+\.\d", printed)


def test_the_lightning_example_runs(run):
    pytest.importorskip("lightning")
    assert re.search(r"loss \d+\.\d", run("lightning_module.py", "--steps", "4"))


def test_the_example_of_e2e_nlg_reads_the_corpus(run, data_dir):
    pytest.importorskip("accelerate")
    assert "BLEU" in run("e2e_nlg.py", "--steps", "1", "--data", str(data_dir / "e2e_nlg"))


def test_an_example_learns(run):
    """A small model on made-up sentences is right on most of them after a part of the full one-minute training."""
    pytest.importorskip("accelerate")
    score = float(re.search(r"BLEU ([\d.]+)", run("e2e_nlg.py", "--steps", "150")).group(1))
    assert score > 30


def test_two_processes_with_a_sharded_model(tmp_path):
    launcher = shutil.which("torchrun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    command = [launcher, "--standalone", "--nproc-per-node=2", EXAMPLES / "torchrun.py", "--steps", "2", "--sharded"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"processes 2, loss \d", done.stdout)
