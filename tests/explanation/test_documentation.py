"""The example writes its page. The code of docs/explain.md is run by tests/test_documentation.py."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*words):
    without_compiler = "default:no compiled kernels:RuntimeWarning"  # a note, not a mistake of the example
    command = [sys.executable, "-W", "error", "-W", without_compiler, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_the_example_writes_a_page_of_its_checkpoints(tmp_path):
    printed = run(ROOT / "examples" / "explain_tensor.py", tmp_path / "page.html")
    assert printed.startswith("E[BLEU-4 with smoothing 1] in tokens")
    assert '"name":"step 100"' in (tmp_path / "page.html").read_text(encoding="utf-8")
