"""The tables as text: for a terminal and as Markdown."""

import re
from collections.abc import Iterable, Sequence

from bleugrad.lab.reports.page import Strong
from bleugrad.lab.reports.paper import tables


def terminal_text(summary: tables.Summary) -> str:
    """The scores for a terminal, with a star in place of bold."""
    table = tables.scores_table(summary)
    kept = [column for column, name in enumerate(table.header) if "interval" not in name]
    rows = [[f"{cell}*" if isinstance(cell, Strong) else cell for cell in row] for row in [table.header, *table.rows]]
    lines = _aligned([[row[column] for column in kept] for row in rows])
    rule = tables.bold_rule(summary)
    rule = rule.replace("Bold:", "*:").replace("othing is bold", "othing is marked *")
    return "\n".join([tables.description(summary), *lines, rule, f"signature: {summary['bleu_signature']}"])


def markdown_text(sections: Iterable[tuple[str, Sequence[tables.Table | str]]]) -> str:
    """Sections of tables and paragraphs as Markdown; each has a title."""
    parts = ["# Results"]
    for title, content in sections:
        parts.append(f"## {title}")
        parts += [_markdown_text(part) if isinstance(part, str) else _markdown(part) for part in content]
    return "\n\n".join(parts) + "\n"


def _markdown(table: tables.Table) -> str:
    lines = [table.header, ["---"] + ["---:"] * (len(table.header) - 1), *table.rows]
    rows = [f"| {' | '.join(_markdown_cell(cell) for cell in row)} |" for row in lines]
    return "\n".join(rows) + (f"\n\n{_markdown_text(table.caption)}" if table.caption else "")


def _markdown_cell(cell: str) -> str:
    if set(cell) <= set("-:"):
        return cell
    return f"**{_markdown_text(cell)}**" if isinstance(cell, Strong) else _markdown_text(cell)


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "  ".join(["{:<%d}", *["{:>%d}"] * (len(widths) - 1)]) % tuple(widths)
    return [form.format(*row) for row in rows]
