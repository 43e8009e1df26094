"""Comparison of a run with the paper: published scores, and the settings that the paper states.

Zhukov, Golikov and Kretov, *Differentiable lower bound for expected BLEU score*, 2017, sections 4.2 and 5.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from bleugrad.lab.experiments.paper.presets import PRESETS, configured
from bleugrad.lab.reports.formats import Table
from bleugrad.lab.reports.page import Quiet
from bleugrad.lab.reports.paper.tables import Summary, score

Values = Mapping[str, Any]

COLUMNS = ("ce", "reinforce-own", "bound-sentence", "exact")
"""The branches that compute the paper's columns CE, RF and LB, and one more."""

PUBLISHED: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "iwslt14": {
        "greedy": {"ce": "26.60 ± 0.14", "reinforce-own": "27.16 ± 0.18", "bound-sentence": "27.83 ± 0.17"},
        "beam 5": {"ce": "27.56 ± 0.17", "reinforce-own": "27.85 ± 0.11", "bound-sentence": "28.10 ± 0.17"},
    },
    "wmt14": {
        "greedy": {"ce": "17.12 ± 0.2", "bound-sentence": "18.65 ± 0.13"},
        "beam 5": {"ce": "19.23 ± 0.19", "bound-sentence": "19.03 ± 0.15"},
    },
}
"""Tables 1 and 2 of the paper: test BLEU, mean and standard deviation of 8 runs."""

NUMBERS = {"iwslt14": 1, "wmt14": 2}
DIRECTIONS = {"iwslt14": "IWSLT'14 de-en", "wmt14": "WMT'14 de-en"}
PAIRS = {"iwslt14": 153_000, "wmt14": 4_500_000}
STATED = {
    "data": ("corpus", "max_length", "units", "vocabulary_source", "vocabulary_size"),
    "model": ("kind", "encoder_layers", "decoder_layers", "hidden"),
    "base": ("epochs", "learning_rate", "decay", "weight_decay", "early_stopping"),
    "tuning": ("epochs", "learning_rate", "reinforce_learning_rate", "factors", "decay", "early_stopping"),
}
"""The settings that the paper states, or its sources of data: Ranzato et al. (2016) and Luong et al. (2015)."""


def published_corpus(config: Values) -> str:
    """The corpus of the paper that a run is compared with: "wmt14" for its corpora, else "iwslt14"."""
    data = config["data"]
    name = PurePath(data["directory"]).name if data["corpus"] == "files" else data["corpus"]
    return "wmt14" if name.startswith("wmt") else "iwslt14"


def paper_table(summary: Summary, config: Values) -> Table:
    """Table 1 or 2 in the paper's form: one row per beam size, published numbers below ours.

    The paper's objectives come first, then the exact expectation if the run has it. Columns are named by what they are.
    """
    corpus = published_corpus(config)
    labels = [label for label in COLUMNS if label in summary["titles"]]
    rows: list[list[str]] = []
    for search in summary["searches"]:
        beam = "1" if search == "greedy" else search.removeprefix("beam ")
        rows.append([beam, *(score(summary, search, label) for label in labels)])
        known = PUBLISHED[corpus].get(search, {})
        rows.append([Quiet("published"), *(Quiet(known.get(label, "")) for label in labels)])
    caption = (
        f"Table {NUMBERS[corpus]} of the paper: test BLEU by beam size on {summary['corpus']}, and the numbers "
        f"published for {DIRECTIONS[corpus]}. The exact expectation is not in the paper."
    )
    return Table(["beam", *(summary["titles"][label] for label in labels)], rows, caption)


def settings_table(summary: Summary, config: Values) -> Table:
    """Each setting that the paper or its source of data states, its value here, and whether they agree."""
    rows = [
        [name, stated, here, "same" if stated == here else "differs"]
        for name, stated, here in stated_settings(summary, config)
    ]
    caption = "The settings that the paper and its sources of data state, and those of this run, as in config.toml."
    return Table(["setting", "paper", "here", ""], rows, caption)


def stated_settings(summary: Summary, config: Values) -> list[tuple[str, str, str]]:
    """(setting, in the paper, here) for each setting that the paper states, named as in config.toml."""
    corpus = published_corpus(config)
    paper = asdict(configured(PRESETS[corpus], None, {"protocol": "paper"}))
    pairs = {run.get("training_pairs") for run in summary["runs"]["base"]} - {None}  # old runs do not record it
    branches = [label for label in COLUMNS[:3] if label in paper["branches"]]
    found = [
        ("training pairs", PAIRS[corpus], sorted(pairs)),
        *((f"{table}.{name}", paper[table][name], config[table][name]) for table in STATED for name in STATED[table]),
        ("branches", branches, [label for label in branches if label in config["branches"]]),
        ("seeds", paper["seeds"], len(summary["seeds"])),
        ("beam", paper["beam"], config["beam"]),
    ]
    return [(name, _shown(stated), _shown(here)) for name, stated, here in found]


def _shown(value: Any) -> str:
    """The text of a value."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    if isinstance(value, int | float):
        return f"{value:,}" if value >= 1 else f"{value:g}"
    return str(value) or "none"
