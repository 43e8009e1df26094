"""Numbers and tables of the documentation: the toy study."""

from typing import Any

from measured import RESULTS, Row, markdown, number, percent, read, table


def curves() -> list[Row]:
    return list(read("toy/summary.json")["curves"])


@number
def toy_least_correlation() -> str:
    """Smallest correlation of the bound with sampled E[BLEU] over the steps of a run, rounded down."""
    return f"{int(1000 * min(curve['bound']['pearson'] for curve in curves())) / 1000:.3f}"


@number
def toy_seeds() -> str:
    return str(len({curve["seed"] for curve in curves()}))


@number
def toy_bound_lag() -> str:
    return f"{-min(curve['bound']['largest_gap'] for curve in curves() if curve['order'] == 1):.2f}"


@number
def toy_repeated_exceeds() -> str:
    found = read("toy/summary.json")["repeats"]["repeated"]
    return f"{found['bound_exceeds']} of {found['cases']}"


@number
def toy_largest_excess() -> str:
    return percent(read("toy/summary.json")["repeats"]["repeated"]["largest_excess"])


@number
def toy_seconds() -> str:
    return f"{read('toy/run.json')['seconds']:.0f} s"


def _toy_table(make: Any) -> str:
    from bleugrad.lab.reports.page import shown
    from bleugrad.lab.runs.directory import read_run

    header, rows, _ = make(read_run(RESULTS / "toy"))
    return markdown(header, [map(shown, row) for row in rows])


@table
def toy_curves() -> str:
    from bleugrad.lab.reports.toy.page import curve_table

    return _toy_table(curve_table)


@table
def toy_repeats() -> str:
    from bleugrad.lab.reports.toy.page import repeat_table

    return _toy_table(repeat_table)
