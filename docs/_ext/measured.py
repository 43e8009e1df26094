"""The numbers and tables of the documentation, read from results/, and the functions that format them.

A number is a function without arguments that returns text, registered under the name that pages use. Nothing here needs
Sphinx, so tests and the README's tables can use the same functions.
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
    """Register a number under the name of its function, with hyphens instead of underscores."""
    NUMBERS[function.__name__.replace("_", "-")] = function
    return function


def table(function: Callable[[], str]) -> Callable[[], str]:
    """Register a table, as Markdown, in the same way."""
    TABLES[function.__name__.replace("_", "-")] = function
    return function


def markdown(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    lines = [list(header)]
    lines += [["---"] * len(lines[0]), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def digits(value: float, number: int = 2) -> str:
    """A value with ``number`` significant digits and commas between thousands: 5178 is 5,200."""
    rounded = float(f"{value:.{number}g}")
    if abs(rounded) >= 100:
        return f"{rounded:,.0f}"
    return f"{rounded:.{number}g}"


def span(values: Iterable[float], shown: Callable[[float], str] = digits) -> str:
    """The smallest and the largest value."""
    found = sorted(values)
    least, greatest = shown(found[0]), shown(found[-1])
    return least if least == greatest else f"{least} to {greatest}"


def percent(share: float, places: int = 1) -> str:
    """A fraction of 1 as a percentage."""
    return f"{100 * share:.{places}f} %"
