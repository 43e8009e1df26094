"""The report of the paper's experiment, from its run directory: tables as text, figure and page."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bleugrad.lab.reports import page
from bleugrad.lab.reports.formats import Table, markdown_text
from bleugrad.lab.reports.paper import publication, tables
from bleugrad.lab.reports.paper.figures import draw_training
from bleugrad.lab.reports.style import save_figure
from bleugrad.lab.runs.directory import FIGURES, REPORT, SavedRun, read_run
from bleugrad.lab.runs.files import write_text

MOST_REFERENCES = 3
"""References shown per sentence; some corpora have dozens."""
MARKDOWN = "tables.md"
ALL_PAIRS, TRAINING = "All pairs", "Training"


def write_report(path: Path) -> None:
    """Write the tables, draw the figure and write the page of the run in ``path``."""
    run = read_run(path)
    write_text(path / MARKDOWN, markdown_text(sections(run)))
    (path / FIGURES).mkdir(exist_ok=True)
    save_figure(path / FIGURES, "training", 6.2, draw_training(run.summary))
    write_text(path / REPORT, render(run))


def sections(run: SavedRun) -> list[tuple[str, list[Table | str]]]:
    """Titles, tables and paragraphs that the page and tables.md share."""
    summary, searches = run.summary, run.summary["searches"]
    published: list[Table | str] = []
    if run.config.get("protocol") == "paper":
        published += [publication.paper_table(summary, run.config), publication.settings_table(summary, run.config)]
    differences = [tables.differences_table(summary, search) for search in searches]
    return [
        *([("Comparison with the paper", published)] if published else []),
        (
            "Scores on the test set",
            [tables.scores_table(summary), tables.signatures_table(summary), tables.lengths_table(summary)],
        ),
        ("Differences from cross-entropy", [tables.DIFFERENCES, *differences]),
        (ALL_PAIRS, [tables.differences_table(summary, search, every=True) for search in searches]),
        (TRAINING, [tables.base_table(summary), tables.choices_table(summary), tables.tries_table(summary)]),
    ]


def render(run: SavedRun) -> str:
    """The page. The figure must exist already."""
    parts = [page.paragraph(_introduction(run)), *_warnings(run.summary)]
    for title, content in sections(run):
        shown = [page.paragraph(part) if isinstance(part, str) else page.table(*part) for part in content]
        if title == ALL_PAIRS:
            parts.append(page.folded(title, shown))
        else:
            parts += [page.heading(title), *([page.figures([_figure(run)])] if title == TRAINING else []), *shown]
    parts += [page.heading("Translations side by side"), *_examples(run.summary)]
    parts += [page.heading("How it was made"), *page.command_part(run)]
    parts.append(page.folded("All settings and versions", page.settings_tables(run)))
    return page.page(f"Cross-entropy and BLEU objectives on {run.summary['corpus']}", parts)


def _introduction(run: SavedRun) -> str:
    config, seeds = run.config, run.summary["seeds"]
    of_all = "" if len(seeds) == config["seeds"] else f" of {config['seeds']} (the others are not finished)"
    tries = len(config["tuning"]["factors"])
    chosen = "for each seed" if config["tuning"]["choose_with"] == "every" else "with the first seed"
    rates = (
        f"Each objective tries {tries} learning rates. Validation BLEU chooses the best one {chosen}."
        if tries > 1
        else "Each objective has one learning rate. Validation BLEU chooses the epoch."
    )
    return (
        f"The first phase trains with cross-entropy for at most {config['base']['epochs']} epochs. The second phase "
        f"starts from its best weights and trains with each objective (epochs: {config['tuning']['epochs']}). {rates} "
        f"The test set is translated after that. Seeds: {len(seeds)}{of_all}. In the tables CE is cross-entropy, RF is "
        "REINFORCE and LB is the paper's lower bound."
    )


def _warnings(summary: Mapping[str, Any]) -> Iterator[str]:
    short = [str(run["seed"]) for run in summary["runs"][tables.BASE] if not run["converged"]]
    if short:
        yield page.paragraph(
            f"Warning: the first phase has not converged with seed {', '.join(short)}. Gains of the second phase may "
            "come from longer training alone. Repeat the run with more --base-epochs to find out."
        )


def _figure(run: SavedRun) -> str:
    return page.figure(
        run.path / FIGURES,
        "training",
        "Validation BLEU by epoch: the first phase with cross-entropy, then one line per objective; below, the gain of "
        "each objective over its starting weights",
        "Validation BLEU with greedy search, as in the paper's figure 3. Above: the first phase (mean and standard "
        "deviation over the seeds that reached the epoch), then each objective. Below: gain of each objective over its "
        "starting weights, mean and standard deviation.",
    )


def _examples(summary: Mapping[str, Any]) -> Iterator[str]:
    if not summary["examples"]:
        yield page.paragraph("There are no examples: none were requested, or all systems translate alike.")
        return
    yield page.paragraph(
        f"Test sentences of seed {summary['seeds'][0]} with greedy search, drawn at random from those with different "
        "translations."
    )
    for example in summary["examples"]:
        references = [("reference", text) for text in example["references"][:MOST_REFERENCES]]
        more = len(example["references"]) - MOST_REFERENCES
        if more > 0:
            references.append(("", f"(and {more} more)"))
        found = [(summary["titles"][label], text) for label, text in example["translations"].items()]
        yield page.texts(f"sentence {example['sentence']}", [("source", example["source"]), *references, *found])
