"""Tables as text: for a terminal and as Markdown."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bleugrad.lab.reports.page import Strong, shown


class Table(NamedTuple):
    """A table of plain texts and numbers; a ``Strong`` cell is shown in bold."""

    header: list[str]
    rows: Sequence[Sequence[str | float]]
    caption: str


def aligned(table: Table) -> str:
    """The header and the rows for a terminal, with a star in place of bold."""
    cells = [[f"{shown(cell)}{'*' * isinstance(cell, Strong)}" for cell in row] for row in [table.header, *table.rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    form = "  ".join(["{:<%d}", *["{:>%d}"] * (len(widths) - 1)]) % tuple(widths)
    return "\n".join(form.format(*row) for row in cells)


def markdown_text(sections: Iterable[tuple[str, Sequence[Table | str]]]) -> str:
    """Sections of tables and paragraphs as Markdown; each has a title."""
    parts = ["# Results"]
    for title, content in sections:
        parts.append(f"## {title}")
        parts += [_escaped(part) if isinstance(part, str) else _markdown(part) for part in content]
    return "\n\n".join(parts) + "\n"


def _markdown(table: Table) -> str:
    rows = [[_cell(cell) for cell in row] for row in (table.header, *table.rows)]
    rows.insert(1, ["---"] + ["---:"] * (len(table.header) - 1))
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return lines + (f"\n\n{_escaped(table.caption)}" if table.caption else "")


def _cell(cell: str | float) -> str:
    return f"**{_escaped(cell)}**" if isinstance(cell, Strong) else _escaped(shown(cell))


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)
