"""The figures of the toy study: labelled, legends beside the curves."""

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bleugrad.lab.reports.style import LIGHT, WIDTH, _settings
from bleugrad.lab.reports.toy import figures


def curve(order, seed, wobble):
    levels = np.linspace(0, 1, 11) ** 2
    return [
        {
            "order": order,
            "seed": seed,
            "step": step,
            "argmax_bleu": float(level),
            "bound": float(level * 0.9),
            "exact": float(level),
            "lower": float(level * 0.7),
            "upper": float(level),
            "sampled": float(level) - wobble,
            "standard_error": 0.01,
        }
        for step, level in enumerate(levels)
    ]


EXAMPLE = [
    {"p": p, "true_matches": p, "bound_matches": p + 0.1, "exact_matches": p} for p in np.linspace(0, 1, 51).tolist()
]
CASES = [
    {
        "repeated": repeated,
        "true_matches": [1.0, 0.5],
        "bound_matches": [0.9 + repeated, 0.5],
        "true_bleu": 0.4,
        "bound_bleu": 0.3,
        "exact_bleu": 0.45,
    }
    for repeated in (False, True)
]
DRAWINGS = {
    "bleu-1": figures.draw_learning_curve([curve(1, 0, 0.0), curve(1, 1, 0.02)]),
    "bleu-2": figures.draw_learning_curve([curve(2, 0, 0.0)]),
    "example": figures.draw_example(EXAMPLE),
    "matches": figures.draw_match_errors(CASES),
    "bleu": figures.draw_bleu_errors(CASES),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_axes_are_labelled_and_the_legend_covers_none_of_them(name):
    with matplotlib.rc_context(_settings(LIGHT)):
        figure = Figure(figsize=(WIDTH, 4.0), layout="constrained")
        DRAWINGS[name](figure, LIGHT)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    assert all(axes.get_ylabel() for axes in figure.axes)
    assert figure.axes[-1].get_xlabel()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert all(not box.overlaps(axes.get_window_extent()) for axes in figure.axes)
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert len(legend.get_texts()) >= 2


def test_the_composite_is_labelled_as_in_the_paper():
    labels = {}
    for name in ("bleu-1", "bleu-2"):
        figure = Figure()
        DRAWINGS[name](figure, LIGHT)
        labels[name] = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "the paper's bound" in labels["bleu-1"]
    assert "the paper's bound + 1" in labels["bleu-2"]
    assert "certified interval" in labels["bleu-2"]
