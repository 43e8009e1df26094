"""The tables of the toy study: header, rows and caption."""

from statistics import mean
from typing import Any

from bleugrad.lab.runs.directory import SavedRun

Table = tuple[list[str], list[list[str | float]], str]

SURROGATES = {"bound": "bound", "exact": "exact", "argmax_bleu": "argmax"}


def orders(run: SavedRun) -> list[int]:
    """The orders N of the run, in the given order."""
    return list(dict.fromkeys(curve["order"] for curve in run.summary["curves"]))


def correlation_range(run: SavedRun, order: int, surrogate: str) -> str:
    """Smallest and largest correlation with sampled E[BLEU] over the seeds."""
    found = [curve[surrogate]["pearson"] for curve in _of_order(run, order)]
    known = [value for value in found if value is not None]
    ends = dict.fromkeys(f"{end:.4f}" for end in (min(known), max(known))) if known else ["undefined"]
    return " to ".join(ends)


def curve_table(run: SavedRun) -> Table:
    """Correlation and gap of each surrogate to sampled E[BLEU], one row per order."""
    header = ["", *(f"r, {name}" for name in SURROGATES.values()), "gap, bound", "gap, exact", "final E[BLEU]"]
    caption = (
        "r: correlation with sampled E[BLEU] over a run, smallest to largest over the seeds. Gap: largest difference "
        "from sampled E[BLEU] over all steps and seeds. Final E[BLEU]: mean over the seeds."
    )
    rows: list[list[str | float]] = []
    for order in orders(run):
        curves = _of_order(run, order)
        correlations = [correlation_range(run, order, name) for name in SURROGATES]
        gaps = [max((curve[name]["largest_gap"] for curve in curves), key=abs) for name in ("bound", "exact")]
        final = mean(curve["final"]["sampled"] for curve in curves)
        rows.append([f"BLEU-{order}", *correlations, *gaps, final])
    return header, rows, caption


def repeat_table(run: SavedRun) -> Table:
    """Errors of the bound and of the exact recursion, for distinct and for repeated words."""
    header = ["", "cases", "bound > truth", "largest excess", "error, bound", "error, exact", "matches, exact"]
    caption = (
        "bound > truth: cases in which the bound of some order exceeds the true matches. Error: mean absolute error of "
        "E[BLEU]. Matches: largest relative error of the matches of the exact recursion."
    )
    return header, [_repeat_row(kind, found) for kind, found in run.summary["repeats"].items()], caption


def _repeat_row(kind: str, found: dict[str, Any]) -> list[str | float]:
    return [
        f"{kind} words",
        found["cases"],
        found["bound_exceeds"],
        f"{100 * found['largest_excess']:.1f} %" if found["bound_exceeds"] else "none",
        found["bound_bleu"]["mean_absolute_gap"],
        found["exact_bleu"]["mean_absolute_gap"],
        f"{found['exact_error']:.0e}",
    ]


def _of_order(run: SavedRun, order: int) -> list[dict[str, Any]]:
    return [curve for curve in run.summary["curves"] if curve["order"] == order]
