"""Numbers of the documentation: runs of the paper's protocol."""

from statistics import fmean

import translation
from measured import RESULTS, digits, markdown, number, percent, read, table

from bleugrad.lab.reports.paper.publication import COLUMNS, DIRECTIONS, PUBLISHED, stated_settings

RUNS = {
    "iwslt14": "",
    "paper/tatoeba_tiny": "",
    "paper/builtin": "higher learning rates",
    "paper/builtin_letter": "to the letter",
    "paper/wmt_mini": "",
}
"""Kept runs of the protocol by folder, and what distinguishes runs on the same corpus."""
FOLLOWED_BY = {"iwslt14": "iwslt14", "paper/wmt_mini": "wmt14"}
"""Runs that the published scores of a corpus follow in the table."""
LEARNED = ("iwslt14", "paper/tatoeba_tiny", "paper/builtin")
"""Runs whose models translate well enough to compare objectives."""
MARGINS = (("bound-sentence", "ce"), ("bound-sentence", "reinforce-own"), ("exact", "bound-sentence"))
"""Pairs of columns that the page compares."""
NONE_YET = "No run of the paper's protocol is kept in `results/` yet.\n"
REASONS = {
    "training pairs": "45,000 of the 153,000 pairs were available; longer sentences were left out to save time",
    "data.max_length": "time: the cost of an epoch falls to 40 %",
    "data.units": "time: the output layer has 4,000 rows instead of 22,824",
    "data.vocabulary_source": "subwords have no published list",
    "data.vocabulary_size": "see data.units",
    "model.hidden": "time",
    "base.learning_rate": "20 epochs have 8,800 steps here and 48,000 in the paper; 0.0001 is too low",
    "seeds": "time",
}
"""Why the run on IWSLT'14 differs, by setting."""


def runs() -> dict[str, translation.Summary]:
    """Summaries by folder."""
    return {run: translation.one_run(run) for run in RUNS if (RESULTS / run / "summary.json").exists()}


@table
def paper_settings() -> str:
    """Each setting of the paper's training section beside that of the run on IWSLT'14, with reasons of differences."""
    summary, config = translation.one_run("iwslt14"), translation.settings("iwslt14")
    assert config is not None
    rows = []
    for name, stated, here in stated_settings(summary, config):
        same = stated == here
        rows.append(
            [
                f"`{name}`" if "." in name else name,
                stated,
                here,
                "same" if same else "different",
                "" if same else REASONS[name],
            ]
        )
    return markdown(["setting", "paper", "here", "", "reason"], rows)


@table
def paper_tables() -> str:
    """Tables 1 and 2 of the paper below our runs: one row per corpus and beam."""
    found = runs()
    if not found:
        return NONE_YET
    rows = []
    for run in RUNS:
        if run in found:
            rows += [[description(run, found[run]), *row] for row in scores_of(found[run])]
        corpus = FOLLOWED_BY.get(run)
        for search, scores in PUBLISHED[corpus].items() if corpus else ():
            cells = [f"*{scores[label]}*" if label in scores else "" for label in COLUMNS]
            rows.append([f"*{DIRECTIONS[corpus]}, published, 8 runs*", beam(search), *cells])
    titles = next(iter(found.values()))["titles"]
    return markdown(["corpus", "beam", *(titles[label] for label in COLUMNS)], rows)


def description(run: str, summary: translation.Summary) -> str:
    """Corpus, training pairs and runs of a kept run."""
    pairs = summary["runs"]["base"][0]["training_pairs"]
    parts = [f"`{summary['corpus']}`", f"{pairs:,} pairs", RUNS[run], translation.number_of_seeds(summary)]
    return ", ".join(filter(None, parts))


@table
def paper_margins() -> str:
    """Differences between the columns of the paper's tables, one row per corpus and beam."""
    found = runs()
    rows = []
    for run in LEARNED:
        for search, scores in found[run]["scores"].items():
            margins = (translation.against(scores, *pair) for pair in MARGINS)
            rows.append([f"`{found[run]['corpus']}`", beam(search), *margins])
    for corpus, published in PUBLISHED.items():
        for search, scores in published.items():
            means = {label: float(shown.split()[0]) for label, shown in scores.items()}
            margins = (f"*{means[a] - means[b]:+.2f}*" if {a, b} <= set(means) else "" for a, b in MARGINS)
            rows.append([f"*{DIRECTIONS[corpus]}, published*", beam(search), *margins])
    names = translation.one_run("iwslt14")["titles"]
    return markdown(["corpus", "beam", *(f"{names[one]} - {names[other]}" for one, other in MARGINS)], rows)


@table
def paper_lengths() -> str:
    """Length and precision of the runs on IWSLT'14, means over seeds."""
    summary, own = translation.one_run("iwslt14"), translation.one_run("paper/iwslt14_own")
    searches, titles, rows = summary["searches"], summary["titles"] | own["titles"], []
    for label, runs in (summary["runs"] | {"own-mix": own["runs"]["own-mix"]}).items():
        row = [titles[label]]
        for search in searches:
            tests = [run["test"][search] for run in runs]
            precision = fmean(one["bleu"] / one["brevity_penalty"] for one in tests)
            row += [f"{fmean(one['length_ratio'] for one in tests):.3f}", f"{100 * precision:.2f}"]
        rows.append(row)
    columns = (", length ratio", ", BLEU without brevity penalty")
    return markdown(["objective", *(f"{search}{column}" for search in searches for column in columns)], rows)


def scores_of(summary: translation.Summary) -> list[list[str]]:
    """One row per beam: its width, and the score of each column."""
    rows = []
    for search in summary["searches"]:
        systems = summary["scores"][search]["systems"]
        rows.append([beam(search), *(translation.score(systems[one]) if one in systems else "" for one in COLUMNS)])
    return rows


def beam(search: str) -> str:
    """The width of a search."""
    return "1" if search == "greedy" else search.removeprefix("beam ")


@number
def iwslt14_length() -> str:
    """Length of greedy translations after cross-entropy, relative to the references."""
    runs = translation.one_run("iwslt14")["runs"]["ce"]
    return percent(fmean(run["test"]["greedy"]["length_ratio"] for run in runs), 0)


@number
def tiny_validation_margin() -> str:
    """Validation BLEU of LB minus that of CE on tatoeba_tiny, mean over runs."""
    runs = translation.one_run("paper/tatoeba_tiny")["runs"]
    bound, ce = (fmean(run["best_bleu"] for run in runs[label]) for label in ("bound-sentence", "ce"))
    return f"{100 * (bound - ce):+.2f}"


def _own_tokens_cost(name: str) -> str:
    """Time of a step as a multiple of that of the exact loss with own tokens."""
    times = read("own_tokens/own_tokens.json")["milliseconds"]
    return digits(times[name] / times["exact, own tokens"])


@number
def reinforce_cost_two() -> str:
    return _own_tokens_cost("RF, 2 own samples")


@number
def reinforce_cost_four() -> str:
    return _own_tokens_cost("RF, 4 own samples")
