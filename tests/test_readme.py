"""The README has the example of ``make reproduce`` and of the first page, and its results are up to date."""

import importlib
import sys

import pytest

from tests.pages import PAGES, ROOT, blocks


def test_the_example_is_the_program_that_make_reproduce_runs():
    example = blocks("README.md", "python")[0]
    assert (ROOT / "examples" / "first_loss.py").read_text(encoding="utf-8").endswith(example.text)


def test_the_first_page_has_the_same_example():
    ours, theirs = blocks("README.md", "python")[0], blocks("docs/index.md", "python")[0]
    assert (ours.text, ours.printed) == (theirs.text, theirs.printed)


def test_the_lines_for_hugging_face_are_those_of_the_page_on_trainers():
    (change,) = blocks("README.md", "diff")
    added = [line[1:].strip() for line in change.text.splitlines() if line.startswith("+    ")]
    assert len(added) == 2
    code = "".join(block.text for block in blocks("docs/trainers.md", "python"))
    assert all(line in code for line in added)


@pytest.fixture
def updated(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield importlib.import_module("readme").updated
    for name in ("readme", "measured", "translation"):
        sys.modules.pop(name, None)


def test_the_results_are_those_of_results(updated):
    readme = PAGES["README.md"].read_text(encoding="utf-8")
    assert updated(readme) == readme, "results/ has changed: run `python docs/readme.py`"
    assert updated(readme.replace(" times | [estimators]", " times more | [estimators]")) == readme
