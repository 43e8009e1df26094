"""A quick part of the fault injection; ``make faults`` runs the long one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path]), "OMP_NUM_THREADS": "1"}
FAILING_TODAY = {"files": (), "calls": (), "cases": (), "kills": ()}
"""Seeds that are left out until what they found is mended; then this list goes."""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.mark.parametrize(
    ("part", "number"), [("calls", 150), ("cases", 25), ("kills", 1), pytest.param("files", 4, marks=pytest.mark.slow)]
)
def test_the_first_cases_survive(part, number):
    """Each part in a process of its own, since its children are forked."""
    counts = dict.fromkeys(FAILING_TODAY, 0) | {part: number}
    options = [word for name, count in counts.items() for word in (f"--{name}", str(count))]
    command = [sys.executable, "-m", "tests.faults", *options, "--skip", *map(str, FAILING_TODAY[part])]
    done = subprocess.run(command, env=ENVIRONMENT, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    tried = number - len(FAILING_TODAY[part])
    assert done.stdout.splitlines()[-1].split() == [part, str(tried), str(tried), "0"]


def report(seed):
    """Stands for the check of a part: one seed fails, one dies, one never ends."""
    if seed == 1:
        return "wrong"
    if seed == 2:
        os.abort()
    while seed == 3:
        pass
    return None


def test_failures_crashes_and_hangs_are_told_with_their_seed():
    script = "from tests.faults.sweep import sweep\nfrom tests.faults.test_faults import report\n"
    script += "result = sweep('part', report, range(5), 2)\nprint(result.tried, result.failures)\n"
    done = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    found = {1: "wrong", 2: "ended by SIGABRT", 3: "no end after 2 s"}
    assert done.stdout == f"5 {found}\n"
