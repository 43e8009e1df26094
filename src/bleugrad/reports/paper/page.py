"""The report of the paper's experiment, from its run directory alone: tables as text, figure, page."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bleugrad.reports import page
from bleugrad.reports.paper.figures import draw_training
from bleugrad.reports.paper.tables import (
    BASE,
    DIFFERENCES,
    Table,
    base_table,
    choices_table,
    differences_table,
    lengths_table,
    power,
    scores_table,
    tries_table,
)
from bleugrad.reports.paper.texts import latex_text, markdown_text
from bleugrad.reports.settings import command_part, settings_tables
from bleugrad.reports.style import save_figure
from bleugrad.runs.directory import FIGURES, REPORT, SavedRun, read_run
from bleugrad.runs.files import write_text

MOST_REFERENCES = 3
"""Of a sentence that are shown; some corpora have dozens."""
MARKDOWN, LATEX = "tables.md", "tables.tex"


def write_report(path: Path) -> None:
    """Write the tables, draw the figure and write the page of the run in ``path``."""
    run = read_run(path)
    write_text(path / MARKDOWN, markdown_text(run.summary))
    write_text(path / LATEX, latex_text(run.summary))
    (path / FIGURES).mkdir(exist_ok=True)
    save_figure(path / FIGURES, "training", 6.2, draw_training(run.summary))
    write_text(path / REPORT, render(run))


def render(run: SavedRun) -> str:
    """The page; the figure has been drawn."""
    summary = run.summary
    parts = [
        page.paragraph(_introduction(run)),
        *_warnings(summary),
        page.heading("Scores on the test set"),
        _table(scores_table(summary)),
        page.paragraph(f"sacreBLEU signatures: {summary['bleu_signature']} and {summary['chrf_signature']}."),
        _table(lengths_table(summary)),
        page.heading("Differences from cross-entropy"),
        page.paragraph(f"{power(summary)} {DIFFERENCES}".strip()),
        *(_table(differences_table(summary, search)) for search in summary["searches"]),
        page.folded(
            "Every pair", [_table(differences_table(summary, search, every=True)) for search in summary["searches"]]
        ),
        page.heading("Training"),
        page.figures([_figure(run)]),
        _table(base_table(summary)),
        _table(choices_table(summary)),
        _table(tries_table(summary)),
        page.heading("Translations side by side"),
        *_examples(summary),
        page.heading("How it was made"),
        *command_part(run),
        page.folded("All settings and versions", settings_tables(run)),
    ]
    return page.page(f"Cross-entropy and BLEU objectives on {summary['corpus']}", parts)


def _introduction(run: SavedRun) -> str:
    config, seeds = run.config, run.summary["seeds"]
    of_all = "" if len(seeds) == config["seeds"] else f" (of {config['seeds']}: the others are not done yet)"
    tries = len(config["tuning"]["factors"])
    chosen = "for each seed" if config["tuning"]["choose_with"] == "every" else "with the first seed"
    return (
        f"Cross-entropy first, for {config['base']['epochs']} epochs at most. Then, from its best weights, each "
        f"objective (further epochs: {config['tuning']['epochs']}). Every objective tries as many learning rates "
        f"({tries}); the best is chosen by validation BLEU, {chosen}, and only then is the test set translated. "
        f"Seeds: {len(seeds)}{of_all}."
    )


def _warnings(summary: Mapping[str, Any]) -> Iterator[str]:
    short = [str(run["seed"]) for run in summary["runs"][BASE] if not run["converged"]]
    if short:
        yield page.paragraph(
            f"Beware: the first phase has not converged with seed {', '.join(short)}. What the second phase gains may "
            "be what any further training would: more --base-epochs in another --output tell."
        )


def _table(table: Table) -> str:
    return page.table(table.header, table.rows, table.caption)


def _figure(run: SavedRun) -> str:
    return page.figure(
        run.path / FIGURES,
        "training",
        "Validation BLEU against epochs: the first phase with cross-entropy, then a line for each objective; below, "
        "the gain of each objective over the weights it starts from",
        "Validation BLEU with greedy search, in the form of the paper's figure 3. Above: the first phase, mean and "
        "standard deviation over the seeds that reached an epoch, then each objective from the best weights on. Below: "
        "what each objective gains over those weights, mean and standard deviation.",
    )


def _examples(summary: Mapping[str, Any]) -> Iterator[str]:
    if not summary["examples"]:
        yield page.paragraph("None are shown: none were asked for, or all translations are the same.")
        return
    yield page.paragraph(
        f"Test sentences of seed {summary['seeds'][0]} with greedy search, at random among those that not all systems "
        "translate alike."
    )
    for example in summary["examples"]:
        references = [("reference", text) for text in example["references"][:MOST_REFERENCES]]
        more = len(example["references"]) - MOST_REFERENCES
        if more > 0:
            references.append(("", f"(further references: {more})"))
        found = [(summary["titles"][label], text) for label, text in example["translations"].items()]
        yield page.texts(f"sentence {example['sentence']}", [("source", example["source"]), *references, *found])
