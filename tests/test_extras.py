"""The core needs torch and numpy only. What needs more names the extra to install."""

import os
import re
import subprocess
import sys
from itertools import chain

import pytest

from tests.pages import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MODULES = {"lightning-fabric": "lightning_fabric", "myst-parser": "myst_parser", "pytest-xdist": "xdist"}


def requirement_names(requirements):
    return {re.match(r"[\w-]+", requirement).group() for requirement in requirements} - {"bleugrad"}


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run_with_core_only(code):
    """Run code in an interpreter that finds none of the optional packages."""
    names = requirement_names(chain.from_iterable(project()["optional-dependencies"].values()))
    blocked = {MODULES.get(name, name) for name in names}
    assert {"sacrebleu", "safetensors", "tqdm", "tomli", "matplotlib", "tokenizers"} <= blocked
    script = f"import sys\nsys.modules.update(dict.fromkeys({sorted(blocked)}))\n{code}"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


def test_the_core_requires_torch_and_numpy():
    assert requirement_names(project()["dependencies"]) == {"torch", "numpy"}


def test_losses_scores_and_the_explanation_work_without_optional_packages():
    done = run_with_core_only("""
import torch, bleugrad
logits, labels = torch.zeros(1, 4, 3, requires_grad=True), torch.tensor([[0, 1, 2, -100]])
for kind in ("ExpectedBLEULoss", "UnbiasedBLEULoss", "ReinforceLoss", "MinimumRiskLoss"):
    getattr(bleugrad, kind)()(logits, labels).backward()
bleugrad.expected_bleu(bleugrad.Projection(torch.zeros(1, 4, 2), torch.zeros(3, 2)), [[0, 1]])
bleugrad.bleu([[1, 2]], [[1, 2]])
assert bleugrad.explain(logits[0], [0, 1], samples=10).html()
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["toy"], "plots"),
        (["train"], "translation"),
        (["reproduce"], "translation"),
    ],
)
def test_a_command_without_its_extra_names_it(tmp_path, words, extra):
    code = (
        f"import os; os.chdir({str(tmp_path)!r}); from bleugrad.lab.commands.main import main; sys.exit(main({words}))"
    )
    done = run_with_core_only(code)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"pip install 'bleugrad[{extra}]'\n")
