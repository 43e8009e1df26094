"""A quick part of the fault injection, and proof that each part finds defects; ``make faults`` runs the long one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path]), "OMP_NUM_THREADS": "1"}

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def run(*words):
    """What a Python program prints; in a process of its own, since it forks."""
    command = [sys.executable, *words]
    done = subprocess.run(command, env=ENVIRONMENT, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("part", ["calls", "cases", "kills", "files"])
def test_the_first_cases_survive_and_defects_are_found(part):
    found = json.loads(run("-m", "tests.faults.quick", part))
    assert found.pop("none") == {}
    assert found, "no defect was tried"
    assert [name for name, failures in found.items() if not failures] == []


def report(seed):
    """Stands for the check of a part: one seed fails, one dies, one never ends."""
    if seed == 1:
        return "wrong"
    if seed == 2:
        os.abort()
    while seed == 3:
        pass
    return None


@pytest.mark.parametrize("workers", [1, 2])
def test_failures_crashes_and_hangs_are_told_with_their_seed(workers):
    script = "from tests.faults.sweep import sweep\nfrom tests.faults.test_faults import report\n"
    script += f"result = sweep('part', report, range(6), 1, {workers})\nprint(result.tried, result.failures)\n"
    found = {1: "wrong", 2: "ended by SIGABRT", 3: "no end after 1 s"}
    assert run("-c", script) == f"6 {found}\n"


def test_the_table_tells_what_was_tried():
    shown = run("-m", "tests.faults", "--cases", "7", "--calls", "0", "--files", "0", "--kills", "0", "--seed", "5")
    assert shown.splitlines()[-1].split() == ["cases", "7", "7", "0"]
