"""The notebook runs from top to bottom, shows what its text promises, and is kept without outputs."""

import os
import re
import sys

import pytest

nbformat = pytest.importorskip("nbformat")

from tests.pages import PAGES, ROOT  # noqa: E402

NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"


@pytest.fixture(scope="module")
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def test_it_is_kept_without_outputs(notebook):
    """Numbers of a run differ between machines, and the page of ``explain`` is long."""
    nbformat.validate(notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    for cell in notebook.cells:
        assert not cell.metadata
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_it_opens_in_colab_and_is_linked():
    content = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    repository = re.search(r'^Homepage = "https://github.com/(.*)"$', content, re.M)[1]
    path = NOTEBOOK.relative_to(ROOT).as_posix()
    address = f"https://colab.research.google.com/github/{repository}/blob/main/{path}"
    assert f"({address})" in NOTEBOOK.read_text(encoding="utf-8")
    assert f'bleugrad[translation] @ git+https://github.com/{repository}\\"' in NOTEBOOK.read_text(encoding="utf-8")
    for page in ("README.md", "docs/index.md"):
        text = PAGES[page].read_text(encoding="utf-8")
        assert f"({address})" in text
        assert path in text.replace(address, "")


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.mark.slow
def test_it_runs(notebook, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    done = nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = {cell.id: cell for cell in done.cells if cell.cell_type == "code"}

    same, late = re.findall(r"cross-entropy ([\d.]+), 1 - expected BLEU ([\d.]+)", printed(cells["loss"]))
    assert float(same[0]) < 0.1 < 4 < float(late[0])
    assert float(same[1]) < float(late[1]) < 0.5

    low, high, mean, error = map(float, re.findall(r"\d\.\d+", printed(cells["interval"])))
    assert low - 4 * error <= mean <= high + 4 * error

    (shown,) = cells["explain"].outputs
    assert shown.data["text/html"].startswith("<iframe")

    lines = printed(cells["tuned"]) + printed(cells["one-pass-bleu"])
    scores = dict(re.findall(r"runs/(\S+) +test BLEU ([\d.]+)", lines))
    assert set(scores) == {"lstm", "lstm-ce", "lstm-recommended", "nat", "nat-exact"}
    assert float(scores["lstm-recommended"]) > float(scores["lstm"]) > 30
    assert float(scores["nat-exact"]) > float(scores["nat"]) + 3
