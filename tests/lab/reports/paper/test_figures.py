"""The figure of the paper's experiment."""

import matplotlib
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bleugrad.lab.reports.paper.figures import choose_looks, course, draw_training
from bleugrad.lab.reports.style import LIGHT, WIDTH, _settings
from tests.lab.reports.paper.summary import make_summary


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


def test_every_objective_has_a_look_of_its_own():
    looks = choose_looks(["ce", "pairs", "exact", "end", "own-mix"])
    assert looks["pairs"] == ("blue", "D")
    assert len({colour for colour, _ in looks.values()}) == len(looks)
    many = choose_looks([f"recipe-{number}" for number in range(72)])
    assert len(set(many.values())) == len(many), "colours come again with other markers"
