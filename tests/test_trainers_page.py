"""The snippets of "Use it in your trainer", as they stand on the page."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
NAMED = {re.match(r"# (\w+\.py)\n", code).group(1): code for code in SNIPPETS if re.match(r"# \w+\.py\n", code)}
OTHERS = [code for code in SNIPPETS if code not in NAMED.values()]

pytestmark = pytest.mark.slow


def titles():
    """The last heading above each snippet that is not a file."""
    found, heading = [], ""
    for match in re.finditer(r"^#+ (.*?)$|```python\n(.*?)```", PAGE, re.S | re.M):
        if match.group(1) is not None:
            heading = match.group(1)
        elif match.group(2) in OTHERS:
            found.append(heading)
    return [f"{index} {title}" for index, title in enumerate(found)]


def needed(code):
    return [
        name for name in ("transformers", "accelerate", "trl", "lightning", "datasets") if f" {name} " in f" {code} "
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the page's files are saved, and the programs run."""
    for name, code in NAMED.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "small", raising=False)
    yield tmp_path
    sys.modules.pop("small", None)


def test_the_page_has_its_files():
    assert set(NAMED) == {"small.py", "loop.py"}
    assert len(OTHERS) == 13


@pytest.mark.parametrize("code", OTHERS, ids=titles())
def test_a_snippet_runs(code, folder):
    for name in needed(code):
        pytest.importorskip(name)
    (folder / "snippet.py").write_text(code, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other libraries: a reader sees them too
        runpy.run_path(str(folder / "snippet.py"), run_name="__main__")


def test_the_loop_in_two_processes_has_the_loss_of_one(folder):
    pytest.importorskip("transformers")
    import torch

    import bleugrad.hf

    (command,) = re.findall(r"```console\n(torchrun .*?)\n```", PAGE)
    launcher = shutil.which("torchrun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    run = [launcher, *command.split()[1:]]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, loss = re.search(r"processes (\d), loss ([\d.]+)", done.stdout).groups()

    small = runpy.run_path(str(folder / "small.py"))
    batch = bleugrad.hf.BLEUCollator(small["tokenizer"], small["model"])(small["data"])
    with torch.no_grad():
        logits = small["model"].eval()(**batch).logits
    alone = bleugrad.ExpectedBLEULoss.recommended(eos_id=small["tokenizer"].eos_token_id)(logits, batch["labels"])
    assert count == "2"
    assert float(loss) == pytest.approx(alone.item(), abs=2e-6)
