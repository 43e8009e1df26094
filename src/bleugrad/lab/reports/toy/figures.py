"""The figures of the toy study."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bleugrad.lab.reports.style import Draw, Palette

Record = dict[str, Any]

THINNEST_BAND = 1e-3  # narrower intervals are invisible: unsmoothed BLEU-1 is known exactly


def draw_learning_curve(curves: Sequence[Sequence[Record]]) -> Draw:
    """The curves of the first seed, as in the paper; below, the gap of each surrogate to the samples, for all seeds."""

    def draw(figure: Figure, palette: Palette) -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2.4, 1))
        _draw_values(above, curves[0], palette)
        _draw_gaps(below, curves, palette)
        figure.legend(*above.get_legend_handles_labels(), loc="outside upper center", ncols=2)

    return draw


def _draw_values(axes: Axes, curve: Sequence[Record], palette: Palette) -> None:
    order = curve[0]["order"]
    steps = _column(curve, "step")
    bound = "the paper's bound" if order == 1 else "the paper's bound + 1"
    axes.plot(steps, _column(curve, "argmax_bleu"), color=palette.vermillion, label="BLEU of the argmax")
    axes.plot(steps, _column(curve, "exact"), color=palette.blue, label="BLEU of exact expectations")
    lower, upper = _column(curve, "lower"), _column(curve, "upper")
    if max(high - low for low, high in zip(lower, upper, strict=True)) > THINNEST_BAND:
        axes.fill_between(steps, lower, upper, color=palette.blue, alpha=0.2, linewidth=0, label="certified interval")
    axes.plot(steps, _column(curve, "bound"), color=palette.purple, linestyle=(0, (1, 1.2)), linewidth=2.4, label=bound)
    sampled, error = _column(curve, "sampled"), _column(curve, "standard_error")
    crosses: dict[str, Any] = {"color": palette.ink, "linestyle": "none", "marker": "x", "markersize": 4}
    axes.errorbar(steps, sampled, yerr=error, elinewidth=0.8, label="E[BLEU], sampled", **crosses)
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel(f"BLEU-{order}")


def _draw_gaps(axes: Axes, curves: Sequence[Sequence[Record]], palette: Palette) -> None:
    axes.axhline(0, color=palette.ink, linewidth=0.8)
    for number, curve in enumerate(curves):
        alpha, width = (1.0, 1.6) if number == 0 else (0.4, 0.8)
        for name, colour, dashes in (("exact", palette.blue, "solid"), ("bound", palette.purple, (0, (1, 1)))):
            gaps = [point[name] - point["sampled"] for point in curve]
            axes.plot(_column(curve, "step"), gaps, color=colour, linestyle=dashes, alpha=alpha, linewidth=width)
    axes.set_xlabel("step of gradient ascent")
    axes.set_ylabel("gap to E[BLEU]")


def draw_example(points: Sequence[Record]) -> Draw:
    """True matches and bound for the reference ``a a``, by the probability of ``a``."""

    def fill(axes: Axes, palette: Palette) -> None:
        chances, bound, true = (_column(points, name) for name in ("p", "bound_matches", "true_matches"))
        above = [high > low + 1e-9 for high, low in zip(bound, true, strict=True)]
        area: dict[str, Any] = {"color": palette.orange, "alpha": 0.45, "linewidth": 0}
        axes.fill_between(chances, true, bound, where=above, **area, label="bound above the truth")
        axes.plot(chances, true, color=palette.ink, label="true E[O$_1$]")
        dotted: dict[str, Any] = {"color": palette.purple, "linestyle": (0, (1, 1.2)), "linewidth": 2.4}
        axes.plot(chances, bound, **dotted, label="the paper's bound")
        circles: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 5, "fillstyle": "none"}
        exact = _column(points[::5], "exact_matches")
        axes.plot(chances[::5], exact, color=palette.blue, **circles, label="exact recursion")

    return _one_plot(fill, "probability of “a” at each of three positions", "expected matches of “a a”")


def draw_match_errors(cases: Sequence[Record]) -> Draw:
    """Relative error of the bound per order, for references with distinct and with repeated words."""

    def fill(axes: Axes, palette: Palette) -> None:
        axes.axhline(0, color=palette.blue, linewidth=1.5, label="exact recursion")
        for repeated, colour, marker in ((False, palette.green, "o"), (True, palette.vermillion, "^")):
            points = [
                (true, 100 * (bound / true - 1))
                for case in cases
                if case["repeated"] == repeated
                for true, bound in zip(case["true_matches"], case["bound_matches"], strict=True)
                if true > 0
            ]
            _scatter(axes, points, colour, marker, f"bound, {'repeated' if repeated else 'distinct'} words")

    return _one_plot(fill, "true expected matches of an order", "bound minus truth (%)")


def draw_bleu_errors(cases: Sequence[Record]) -> Draw:
    """BLEU of exact matches and of bounds minus true E[BLEU], for references with repeated words."""

    def fill(axes: Axes, palette: Palette) -> None:
        axes.axhline(0, color=palette.ink, linewidth=0.8)
        repeated = [case for case in cases if case["repeated"]]
        for name, colour, marker, label in (
            ("bound", palette.purple, "^", "the paper's bounds"),
            ("exact", palette.blue, "o", "exact expectations"),
        ):
            points = [(case["true_bleu"], case[f"{name}_bleu"] - case["true_bleu"]) for case in repeated]
            _scatter(axes, points, colour, marker, f"of {label}")

    return _one_plot(fill, "true E[BLEU], by enumeration", "surrogate minus truth")


def _one_plot(fill: Callable[[Axes, Palette], None], across: str, up: str) -> Draw:
    """A figure of one plot with axis labels and a legend above it."""

    def draw(figure: Figure, palette: Palette) -> None:
        axes = figure.subplots()
        fill(axes, palette)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        figure.legend(loc="outside upper center", ncols=2)

    return draw


def _scatter(axes: Axes, points: Sequence[tuple[float, float]], colour: str, marker: str, label: str) -> None:
    across, up = [x for x, _ in points], [y for _, y in points]
    axes.scatter(across, up, s=14, color=colour, marker=marker, alpha=0.7, linewidths=0, label=label)


def _column(records: Sequence[Record], name: str) -> list[float]:
    return [record[name] for record in records]
