"""The page of the paper's experiment, from a saved summary, with every text escaped."""

import json

import pytest

from bleugrad.lab.commands.main import main
from bleugrad.lab.runs.directory import start_run
from tests.lab.reports.browser import find_browser, look
from tests.lab.reports.paper.summary import make_summary
from tests.lab.reports.test_page import LINE

CONFIG = """seeds = 2
objectives = ["ce", "exact"]
[base]
epochs = 20
[tuning]
epochs = 5
factors = [1.0, 3.0]
choose_with = "every"
"""


@pytest.fixture
def saved(tmp_path):
    """A run that holds a summary and nothing else, with hostile text wherever text of others goes."""
    summary = make_summary()
    summary["examples"][0] |= {"source": LINE, "references": [LINE, LINE]}
    summary["examples"][0]["translations"] = dict.fromkeys(summary["titles"], LINE)
    with start_run(tmp_path / "run", study="reproduce", config=CONFIG, seed=1, command=f"bleugrad {LINE}") as run:
        run.summarise(summary)
    return tmp_path / "run"


def test_a_report_needs_the_summary_only_and_escapes_what_others_wrote(saved):
    assert main(["report", str(saved)]) == 0
    page = (saved / "report.html").read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 1 + 2 + 3 + 1  # source, references, translations, command
    assert "<strong>33.00 ± 0.20</strong>" in page
    for name in ("tables.md", "figures/training.svg", "figures/training-dark.svg"):
        assert (saved / name).exists()


def test_a_report_warns_of_a_base_that_has_not_converged_and_of_seeds_to_come(saved):
    summary = json.loads((saved / "summary.json").read_text())
    summary["runs"]["base"][1]["converged"] = False
    (saved / "summary.json").write_text(json.dumps(summary | {"seeds": [1]}))
    assert main(["report", str(saved)]) == 0
    page = (saved / "report.html").read_text()
    assert "has not converged with seed 2" in page
    assert "Seeds: 1 of 2 (the others are not finished)" in page


def test_a_report_says_how_the_learning_rate_was_chosen(saved):
    assert main(["report", str(saved)]) == 0
    several = "Each objective tries 2 learning rates. Validation BLEU chooses the best one for each seed."
    assert several in (saved / "report.html").read_text()
    config = saved / "config.toml"
    config.write_text(config.read_text().replace("[1.0, 3.0]", "[1.0]"))
    assert main(["report", str(saved)]) == 0
    page = (saved / "report.html").read_text()
    assert "Each objective has one learning rate. Validation BLEU chooses the epoch." in page
    assert "tries" not in page


@pytest.mark.skipif(find_browser() is None, reason="no Chromium here: install the package chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_seen_whole(saved, tmp_path, width):
    assert main(["report", str(saved)]) == 0
    seen = look(saved / "report.html", tmp_path, width)
    assert seen["overflow"] == 0, "the page scrolls sideways"
    assert seen["scripts"] == 0
    assert seen["outside"] == []
    (image,) = seen["images"]
    assert image["drawn"]
    assert LINE in seen["text"]
