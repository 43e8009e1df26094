"""The tables as text: for a terminal and as Markdown."""

import re
from collections.abc import Iterable

from bleugrad.lab.reports.page import Strong
from bleugrad.lab.reports.paper import tables

Summary = tables.Summary


def terminal_text(summary: Summary) -> str:
    """The scores for a terminal, with a star in place of bold."""
    table = tables.scores_table(summary)
    kept = [column for column, name in enumerate(table.header) if "interval" not in name]
    rows = [[f"{cell}*" if isinstance(cell, Strong) else cell for cell in row] for row in [table.header, *table.rows]]
    lines = _aligned([[row[column] for column in kept] for row in rows])
    rule = tables.bold_rule(summary)
    rule = rule.replace("Bold:", "*:").replace("othing is bold", "othing is marked *")
    return "\n".join([tables.description(summary), *lines, rule, f"signature: {summary['bleu_signature']}"])


def markdown_text(summary: Summary, first: Iterable[tables.Table] = ()) -> str:
    """All tables as Markdown, after ``first``."""
    searches = summary["searches"]
    parts = ["# Results", *map(_markdown, first), _markdown(tables.results_table(summary))]
    parts += ["## Scores", _markdown(tables.scores_table(summary))]
    parts += [f"sacreBLEU signatures: `{summary['bleu_signature']}` and `{summary['chrf_signature']}`."]
    parts += ["## Differences from cross-entropy"]
    parts += [_markdown_text(f"{tables.power(summary)} {tables.DIFFERENCES}".strip())]
    parts += [_markdown(tables.differences_table(summary, search)) for search in searches]
    parts += ["## All pairs"]
    parts += [_markdown(tables.differences_table(summary, search, every=True)) for search in searches]
    parts += ["## Lengths and chrF", _markdown(tables.lengths_table(summary))]
    parts += ["## Choices and times", _markdown(tables.choices_table(summary)), _markdown(tables.tries_table(summary))]
    parts += ["## First phase", _markdown(tables.base_table(summary))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown(table: tables.Table) -> str:
    lines = [table.header, ["---"] + ["---:"] * (len(table.header) - 1), *table.rows]
    rows = [f"| {' | '.join(_markdown_cell(cell) for cell in row)} |" for row in lines]
    return "\n".join(rows) + f"\n\n{_markdown_text(table.caption)}"


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
