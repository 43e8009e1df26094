"""The report of the toy study, from its run directory."""

from pathlib import Path
from statistics import mean
from typing import Any

from bleugrad.lab.reports import page
from bleugrad.lab.reports.formats import Table, aligned
from bleugrad.lab.reports.style import save_figure
from bleugrad.lab.reports.toy import figures
from bleugrad.lab.runs.directory import FIGURES, REPORT, SavedRun, read_run
from bleugrad.lab.runs.files import write_text

_REPEATS = (
    "The paper's bound is a lower bound if the n-grams of the reference are distinct and do not overlap themselves. "
    "If a word repeats, it can exceed the true value; the exact recursion cannot. These cases are small enough to "
    "enumerate every sequence."
)
SURROGATES = {"bound": "bound", "exact": "exact", "argmax_bleu": "argmax"}


def write_report(path: Path) -> None:
    """Draw the figures of the run in ``path`` and write its page."""
    run = read_run(path)
    folder = path / FIGURES
    folder.mkdir(exist_ok=True)
    for order in orders(run):
        save_figure(folder, f"bleu-{order}", 5.0, figures.draw_learning_curve(_curves(run, order)))
    if run.summary["repeats"] is not None:
        cases = _records(run, "case")
        save_figure(folder, "repeats-example", 3.8, figures.draw_example(_records(run, "example")))
        save_figure(folder, "repeats-matches", 3.8, figures.draw_match_errors(cases))
        save_figure(folder, "repeats-bleu", 3.8, figures.draw_bleu_errors(cases))
    write_text(path / REPORT, render(run))


def render(run: SavedRun) -> str:
    """The page. The figures must exist already."""
    parts = [page.paragraph(_introduction(run)), page.heading("Learning curves")]
    parts += [_curve_figures(run), page.table(*curve_table(run))]
    if run.summary["repeats"] is not None:
        parts += [page.heading("Repeated words"), page.paragraph(_REPEATS)]
        parts += [_repeat_figures(run), page.table(*repeat_table(run))]
    parts += [page.heading("How it was made"), *page.command_part(run), *page.settings_tables(run)]
    return page.page("Toy study: BLEU by gradient ascent on free logits", parts)


def terminal_text(run: SavedRun) -> str:
    """The tables for a terminal."""
    tables = [curve_table(run)] + ([] if run.summary["repeats"] is None else [repeat_table(run)])
    return "\n\n".join(f"{aligned(table)}\n{table.caption}" for table in tables)


def _introduction(run: SavedRun) -> str:
    config = run.config
    surrogate = "the paper's bound" if config["method"] == "bound" else "the exact expectation"
    found = "; ".join(f"BLEU-{order}: {correlation_range(run, order, 'bound')}" for order in orders(run))
    return (
        f"Gradient ascent on {surrogate} trains random logits ({config['length']} positions, {config['vocabulary']} "
        f"words) towards a random reference, with {config['seeds']} seeds. The paper claims that its bound and the "
        f"expected BLEU rise together. Correlation of the bound with sampled E[BLEU] over a run: {found}."
    )


def _curve_figures(run: SavedRun) -> str:
    composite = " The 1 that the paper subtracts from its bound is added back."
    return page.figures(
        page.figure(
            run.path / FIGURES,
            f"bleu-{order}",
            f"Learning curves of BLEU-{order}: argmax, bound, exact expectation and sampled expectation against steps",
            f"BLEU-{order}, seed {run.about['seed']}. Crosses: mean of {run.config['samples']} samples, with standard "
            "error. Below: each surrogate minus sampled E[BLEU]; thin lines are the other seeds."
            + (composite if order > 1 else ""),
        )
        for order in orders(run)
    )


def _repeat_figures(run: SavedRun) -> str:
    order = run.config["repeats"]["max_order"]
    described = (
        (
            "repeats-example",
            "Expected matches of the reference a a: the bound lies above the truth up to probability 0.7",
            "The smallest example: reference a a, three positions. At probability 0.5 the bound is 1.5, the truth "
            "1.375.",
        ),
        (
            "repeats-matches",
            "Relative error of the bound against true expected matches, distinct and repeated words",
            f"Random cases, one point per order up to {order}. Points above 0 violate the bound.",
        ),
        (
            "repeats-bleu",
            "Surrogate BLEU minus true expected BLEU for references with repeated words",
            f"BLEU-{order} of exact expectations and of bounds, for references with repeated words and smoothing "
            f"{run.config['repeats']['smoothing']:g}. BLEU of exact expectations is an upper bound: never below 0.",
        ),
    )
    return page.figures(page.figure(run.path / FIGURES, *texts) for texts in described)


def _curves(run: SavedRun, order: int) -> list[list[dict[str, Any]]]:
    """The measurements of one order, grouped by seed."""
    by_seed: dict[int, list[dict[str, Any]]] = {}
    for record in _records(run, "curve"):
        if record["order"] == order:
            by_seed.setdefault(record["seed"], []).append(record)
    return list(by_seed.values())


def _records(run: SavedRun, kind: str) -> list[dict[str, Any]]:
    return [record for record in run.records if record["kind"] == kind]


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
    return Table(header, rows, caption)


def repeat_table(run: SavedRun) -> Table:
    """Errors of the bound and of the exact recursion, for distinct and for repeated words."""
    header = ["", "cases", "bound > truth", "largest excess", "error, bound", "error, exact", "matches, exact"]
    caption = (
        "bound > truth: cases in which the bound of some order exceeds the true matches. Error: mean absolute error of "
        "E[BLEU]. Matches: largest relative error of the matches of the exact recursion."
    )
    return Table(header, [_repeat_row(kind, found) for kind, found in run.summary["repeats"].items()], caption)


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
