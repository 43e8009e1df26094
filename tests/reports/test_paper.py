"""The paper's experiment as text, figure and page: its form, bold only where it is earned, every text escaped."""

import json

import matplotlib
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bleugrad.cli.main import main
from bleugrad.reports.page import Strong
from bleugrad.reports.paper_figures import choose_looks, course, draw_training
from bleugrad.reports.paper_tables import (
    base_table,
    bold_rule,
    choices_table,
    differences_table,
    lengths_table,
    power,
    results_table,
    scores_table,
    tries_table,
)
from bleugrad.reports.paper_texts import latex, latex_text, markdown_text, terminal_text
from bleugrad.reports.style import LIGHT, WIDTH, _settings
from bleugrad.runs.directory import start_run
from tests.reports.browser import find_browser, look
from tests.reports.paper_summary import make_summary
from tests.reports.test_page import LINE

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


def test_the_form_is_that_of_the_papers_tables():
    table = results_table(make_summary())
    assert table.header == ["", "CE", "exact"]
    assert table.rows == [
        ["greedy", "31.00 ± 0.20", "33.00 ± 0.20"],
        ["beam 5", "31.00 ± 0.20", "33.00 ± 0.20"],
    ]


def test_only_what_the_test_supports_is_bold():
    (_, ce, exact), (_, _, with_beam) = results_table(make_summary()).rows
    assert isinstance(exact, Strong)
    assert not isinstance(ce, Strong)
    assert not isinstance(with_beam, Strong)
    assert bold_rule(make_summary()).startswith("Bold: better than CE")
    assert bold_rule(make_summary(best=None)).startswith("Nothing is bold")


def test_one_seed_has_no_spread_and_no_test():
    summary = make_summary(seeds=(1,))
    assert results_table(summary).rows[0] == ["greedy", "31.00", "33.00"]
    assert "nothing is bold" in bold_rule(summary)
    assert power(summary).startswith("One seed says nothing about others")
    assert differences_table(summary, "greedy").rows == [["exact - CE", "+2.00", "-", "0.40", "0.200"]]


def test_few_seeds_are_said_to_show_little():
    assert "With 2 seeds" in power(make_summary())
    assert "significant from about 0.40 BLEU (greedy) and 0.40 BLEU (beam 5)" in power(make_summary())
    assert "12.7" in power(make_summary())
    assert "12.7" not in power(make_summary(seeds=(1, 2, 3)))


def test_scores_have_intervals_and_differences():
    table = scores_table(make_summary())
    assert table.header == ["", "greedy", "over CE", "interval", "beam 5", "over CE", "interval"]
    assert table.rows[0][:4] == ["base (first phase)", "30.00 ± 0.20", "-1.00", "29.0 to 31.0"]
    assert table.rows[1][2] == ""
    assert table.rows[2][2] == "+2.00"


def test_differences_point_away_from_cross_entropy():
    summary = make_summary()
    assert differences_table(summary, "greedy").rows == [["exact - CE", "+2.00", "0.010", "0.40", "0.200"]]
    for pair in summary["scores"]["greedy"]["pairs"]:
        pair["one"], pair["other"], pair["difference"] = pair["other"], pair["one"], -pair["difference"]
    assert differences_table(summary, "greedy").rows == [["exact - CE", "+2.00", "0.010", "0.40", "0.200"]]
    assert len(differences_table(summary, "greedy", every=True).rows) == 3


def test_equal_outputs_are_called_equal():
    summary = make_summary()
    summary["scores"]["greedy"]["pairs"][2]["equal"] = True
    assert differences_table(summary, "greedy").rows == [["exact - CE", "0.00", "equal", "", "equal"]]


def test_the_details_tell_rates_lengths_and_times():
    base, ce, exact = choices_table(make_summary()).rows
    assert base == ["base", "12.5", "3", ""]
    assert ce == ["CE", "12.5", "2", "1.0e-04"]
    assert exact[-1] == "1.0e-04, 2.0e-04"
    assert lengths_table(make_summary()).rows[1][:4] == ["CE", "51.00", "0.981", "0.980"]


def test_every_try_is_shown_and_a_base_that_has_not_converged_too():
    summary = make_summary()
    assert tries_table(summary).rows[1] == ["exact", "1.0e-04: 31.00", "2.0e-04: 32.00"]
    summary["runs"]["base"][0]["converged"] = False
    assert [row[-1] for row in base_table(summary).rows] == ["no", "yes"]


def test_latex_is_the_papers_and_escaped():
    text = latex_text(make_summary())
    assert r"\hline \bf & \bf CE & \bf exact \\ \hline" in text
    assert r"1 & $31.00\pm 0.20$ & $\textbf{33.00}\pm \textbf{0.20}$ \\" in text
    assert r"5 & $31.00\pm 0.20$ & $33.00\pm 0.20$ \\" in text
    assert r"tatoeba\_tiny" in text
    assert "Beam sizes of 1 and 5." in text
    assert r"nrefs:1\textbar{}case:mixed" in text
    assert latex(r"100 % & $5 \ {_}") == r"100 \% \& \$5 \textbackslash{} \{\_\}"


def test_markdown_is_bold_and_escaped():
    summary = make_summary()
    summary["titles"]["exact"] = "a|b*c_d"
    text = markdown_text(summary)
    assert "| greedy | 31.00 ± 0.20 | **33.00 ± 0.20** |" in text
    assert r"a\|b\*c\_d" in text
    assert all(line.count(" | ") == 2 for line in text.splitlines()[2:6])
    assert "`nrefs:1|case:mixed" in text


def test_the_terminal_has_stars_for_bold():
    lines = terminal_text(make_summary()).splitlines()
    assert lines[0] == "Test BLEU on tatoeba_tiny (500 sentences), mean ± standard deviation of 2 seeds."
    assert lines[4].split() == ["exact", "33.00", "±", "0.20*", "+2.00", "33.00", "±", "0.20", "+2.00"]
    assert lines[5].startswith("*: better than CE")
    assert len({len(line) for line in lines[1:5]}) == 1


def test_curves_are_means_over_the_seeds_that_got_there():
    summary = make_summary()
    points = course([run["history"] for run in summary["runs"]["base"]])
    assert [epoch for epoch, _, _ in points] == [1, 2, 3, 4]
    gains = course([[{"epoch": 0, "bleu": 0.3}, {"epoch": 1, "bleu": bleu}] for bleu in (0.31, 0.33)], minus_start=True)
    assert gains[1] == pytest.approx((1, 2.0, 2**0.5))


def test_the_figure_is_labelled_and_its_legend_covers_nothing():
    with matplotlib.rc_context(_settings(LIGHT)):
        figure = Figure(figsize=(WIDTH, 6.2), layout="constrained")
        draw_training(make_summary())(figure, LIGHT)
        FigureCanvasAgg(figure).draw()
    assert all(axes.get_ylabel() and axes.get_xlabel() for axes in figure.axes)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["CE", "exact"]
    assert all(not legend.get_window_extent().overlaps(axes.get_window_extent()) for axes in figure.axes)


def test_a_report_needs_the_summary_only_and_escapes_what_others_wrote(saved):
    assert main(["report", str(saved)]) == 0
    page = (saved / "report.html").read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 1 + 2 + 3 + 1  # source, references, translations, command
    assert "<strong>33.00 ± 0.20</strong>" in page
    for name in ("tables.md", "tables.tex", "figures/training.svg", "figures/training-dark.svg"):
        assert (saved / name).exists()


def test_a_report_warns_of_a_base_that_has_not_converged_and_of_seeds_to_come(saved):
    summary = json.loads((saved / "summary.json").read_text())
    summary["runs"]["base"][1]["converged"] = False
    (saved / "summary.json").write_text(json.dumps(summary | {"seeds": [1]}))
    assert main(["report", str(saved)]) == 0
    page = (saved / "report.html").read_text()
    assert "has not converged with seed 2" in page
    assert "Seeds: 1 (of 2: the others are not done yet)" in page


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


def test_objectives_of_ones_own_take_colours_that_are_free():
    looks = choose_looks(["ce", "pairs", "exact", "end", "own-mix"])
    assert looks["exact"] == ("blue", "D")
    assert len({colour for colour, _ in looks.values()}) == len(looks)
    many = choose_looks(["exact", *(f"recipe-{number}" for number in range(20))])
    assert len(set(many.values())) == len(many), "colours come again with other markers"
