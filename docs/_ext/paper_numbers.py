"""Numbers of the documentation: the paper's protocol, from results/paper."""

import translation
from measured import RESULTS, digits, markdown, number, table

from bleugrad.reports.paper.publication import COLUMNS, DIRECTIONS, PUBLISHED

CORPORA = {"builtin": "`builtin`, higher learning rates", "builtin_letter": "`builtin`, to the letter"}
"""Kept runs by folder."""
NONE_YET = "No run of the paper's protocol is kept in `results/paper` yet.\n"


def runs() -> dict[str, translation.Summary]:
    """Summaries by corpus."""
    return {
        corpus: translation.one_run(f"paper/{corpus}")
        for corpus in CORPORA
        if (RESULTS / "paper" / corpus / "summary.json").exists()
    }


@table
def paper_tables() -> str:
    """Tables 1 and 2 of the paper with our runs above them: one row per corpus and beam."""
    found = runs()
    if not found:
        return NONE_YET
    rows = []
    for corpus, summary in found.items():
        for search in summary["searches"]:
            systems = summary["scores"][search]["systems"]
            cells = [translation.score(systems[label]) for label in COLUMNS]
            rows.append([f"{CORPORA[corpus]}, {translation.number_of_seeds(summary)}", beam(search), *cells])
    for corpus, published in PUBLISHED.items():
        for search, scores in published.items():
            cells = [f"*{scores[label]}*" if label in scores else "" for label in COLUMNS]
            rows.append([f"*{DIRECTIONS[corpus]}, published, 8 runs*", beam(search), *cells])
    titles = next(iter(found.values()))["titles"]
    return markdown(["corpus", "beam", *(titles[label] for label in COLUMNS)], rows)


def beam(search: str) -> str:
    """The width of a search."""
    return "1" if search == "greedy" else search.removeprefix("beam ")


def _reinforce_cost(run: str) -> str:
    """Processor time of REINFORCE on own samples, as a multiple of that of the exact loss with own tokens."""
    seconds = translation.processor_seconds(run)
    return digits(seconds["reinforce-own"] / seconds["own-mix"])


@number
def reinforce_cost_builtin() -> str:
    return _reinforce_cost("beam/builtin")


@number
def reinforce_cost_multi30k() -> str:
    return _reinforce_cost("beam/multi30k")
