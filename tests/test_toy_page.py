"""What docs/toy.md says holds of the run in results/toy; its numbers are read from there when the page is built."""

from pathlib import Path

import pytest

from bleugrad.lab.experiments.toy.config import ToyConfig
from bleugrad.lab.runs.directory import read_run
from bleugrad.lab.settings.loading import load

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "toy.md"
RESULTS = ROOT / "results" / "toy"


@pytest.fixture(scope="module")
def run():
    return read_run(RESULTS)


def test_the_run_is_finished_and_made_with_the_defaults(run):
    assert run.about["status"] == "finished"
    assert load(ToyConfig, RESULTS / "config.toml") == ToyConfig()


def test_the_claim_of_the_page_holds(run):
    assert all(curve["bound"]["pearson"] > 0.995 for curve in run.summary["curves"])
    assert all(case["exact_bleu"] >= case["true_bleu"] for case in run.records if case["kind"] == "case")


def test_the_figures_of_the_page_are_there():
    for name in ("bleu-1", "bleu-2", "bleu-4", "repeats-example", "repeats-matches", "repeats-bleu"):
        assert f"../results/toy/figures/{name}.svg" in PAGE.read_text(encoding="utf-8")
        assert (RESULTS / "figures" / f"{name}.svg").stat().st_size > 0
        assert (RESULTS / "figures" / f"{name}.png").stat().st_size > 0
