"""The figure of the paper's experiment: validation BLEU by epoch, in both phases."""

import itertools
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bleugrad.lab.reports.paper.tables import BASE, objectives
from bleugrad.lab.reports.style import Draw, Palette

Summary = Mapping[str, Any]
Point = tuple[float, float, float]
"""Epoch, mean and standard deviation over seeds."""

COLOURS = ("ink", "blue", "vermillion", "green", "purple", "orange", "azure", "brown")
MARKERS = "oDP^vsX*h"


def draw_training(summary: Summary) -> Draw:
    """The paper's figure 3; below it, the gain of each objective over its starting weights."""
    looks = choose_looks(objectives(summary))

    def draw(figure: Figure, palette: Palette) -> None:
        above, below = figure.subplots(2, 1, height_ratios=(1.3, 1))
        _draw_phases(above, summary, looks, palette)
        _draw_gains(below, summary, looks, palette)
        figure.legend(*below.get_legend_handles_labels(), loc="outside upper center", ncols=3)

    return draw


def choose_looks(labels: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each objective, in the order of the run. No two of 72 objectives have both in common."""
    return dict(zip(labels, zip(itertools.cycle(COLOURS), itertools.cycle(MARKERS), strict=False), strict=False))


def course(histories: Sequence[Sequence[Mapping[str, Any]]], minus_start: bool = False) -> list[Point]:
    """Mean and standard deviation over seeds of validation BLEU, times 100, at each epoch.

    ``minus_start`` subtracts the first score of each seed.
    """
    values: dict[int, list[float]] = {}
    for history in histories:
        start = history[0]["bleu"] if minus_start else 0.0
        for point in history:
            values.setdefault(point["epoch"], []).append(100 * (point["bleu"] - start))
    return [(epoch, mean(found), stdev(found) if len(found) > 1 else 0.0) for epoch, found in sorted(values.items())]


def _histories(summary: Summary, label: str) -> list[Any]:
    return [run["history"] for run in summary["runs"][label]]


def _draw_phases(axes: Axes, summary: Summary, looks: Mapping[str, tuple[str, str]], palette: Palette) -> None:
    epochs, middle, spread = np.array(course(_histories(summary, BASE))).T
    axes.plot(epochs, middle, color=palette.ink, linewidth=1.4)
    axes.fill_between(epochs, middle - spread, middle + spread, color=palette.ink, alpha=0.2, linewidth=0)
    axes.axvline(epochs[-1], color=palette.ink, linewidth=0.8, linestyle=(0, (2, 2)))
    for label, (colour, _) in looks.items():
        later, middle, _ = np.array(course(_histories(summary, label))).T
        axes.plot(epochs[-1] + later, middle, color=getattr(palette, colour), linewidth=1.4)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch: cross-entropy, then each objective")
    axes.set_ylabel("validation BLEU")


def _draw_gains(axes: Axes, summary: Summary, looks: Mapping[str, tuple[str, str]], palette: Palette) -> None:
    axes.axhline(0, color=palette.ink, linewidth=0.8)
    for place, (label, (colour, marker)) in enumerate(looks.items()):
        aside = 0.5 * ((place + 0.5) / len(looks) - 0.5)  # side by side: no error bar hides another
        epochs, gain, spread = np.array(course(_histories(summary, label), minus_start=True))[1:].T
        look: dict[str, Any] = {"color": getattr(palette, colour), "marker": marker, "markersize": 5}
        title = summary["titles"][label]
        axes.errorbar(epochs + aside, gain, yerr=spread, linewidth=1.0, elinewidth=1.0, label=title, **look)
    last = max(run["epochs"] for label in looks for run in summary["runs"][label])
    axes.set_xlim(0.5, last + 0.5)
    axes.set_xticks(range(1, last + 1, 1 + last // 12))
    axes.set_xlabel("epoch of the second phase")
    axes.set_ylabel("gain in BLEU")
