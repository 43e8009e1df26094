"""What numbers and tables of the documentation are made with: read from results/, none of them is typed on a page.

A number is a function without arguments that returns text, under the name a page uses. Nothing here needs Sphinx, so
that tests and the README's table can ask for the same text.
"""

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"

NUMBERS: dict[str, Callable[[], str]] = {}
TABLES: dict[str, Callable[[], str]] = {}

Row = dict[str, Any]


@cache
def read(path: str) -> Any:
    """A JSON file of results/."""
    return json.loads((RESULTS / path).read_text(encoding="utf-8"))


def number(function: Callable[[], str]) -> Callable[[], str]:
    """Enter a number under its function's name, hyphens for underscores."""
    NUMBERS[function.__name__.replace("_", "-")] = function
    return function


def table(function: Callable[[], str]) -> Callable[[], str]:
    """Enter a table, as Markdown."""
    TABLES[function.__name__.replace("_", "-")] = function
    return function


def markdown(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table of cells."""
    lines = [list(header)]
    lines += [["---"] * len(lines[0]), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def digits(value: float, number: int = 2) -> str:
    """So many significant digits, thousands with commas: 5178 as 5,200."""
    rounded = float(f"{value:.{number}g}")
    if abs(rounded) >= 100:
        return f"{rounded:,.0f}"
    return f"{rounded:.{number}g}"


def span(values: Iterable[float], shown: Callable[[float], str] = digits) -> str:
    """Least to greatest."""
    found = sorted(values)
    least, greatest = shown(found[0]), shown(found[-1])
    return least if least == greatest else f"{least} to {greatest}"


def percent(share: float, places: int = 1) -> str:
    """A share of 1 in hundredths."""
    return f"{100 * share:.{places}f} %"
