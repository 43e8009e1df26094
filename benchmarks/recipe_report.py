"""The summary of ``recipe.py``: one row per model and quality, means over learning rates and seeds."""

import json
import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

NAMES = {"t5": "T5", "marian": "Marian", "gpt2": "GPT-2"}
Runs = list[dict[str, Any]]


def read_runs(folder: Path) -> Runs:
    return [json.loads(line) for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()]


def difference(run: dict[str, Any]) -> float:
    """BLEU of the recipe minus BLEU of cross-entropy, mean of validation and test set."""
    return fmean(run["recipe"][part] - run["cross_entropy"][part] for part in ("valid", "test"))


def groups(runs: Runs) -> dict[tuple[str, str, float], Runs]:
    """The comparisons from each kept model, in the order of the corpora, models and qualities."""
    found: dict[tuple[str, str, float], Runs] = {}
    for run in runs:
        found.setdefault((run["corpus"], run["architecture"], run["base"]["bleu"]), []).append(run)
    return dict(sorted(found.items(), key=lambda item: (item[0][0] != "tatoeba_tiny", *item[0])))


def overall(runs: Runs) -> tuple[float, float]:
    """Mean difference, and its standard error over comparisons."""
    values = [difference(run) for run in runs]
    return fmean(values), stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def summary(folder: Path) -> str:
    runs = read_runs(folder)
    lines = [
        "| corpus | model | BLEU before | comparisons | BLEU, cross-entropy | BLEU, default | difference | smallest | "
        "length ratio, cross-entropy | length ratio, default |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (corpus, architecture, bleu), group in groups(runs).items():
        scores = [fmean(run[kind]["test"] for run in group) for kind in ("cross_entropy", "recipe")]
        ratios = [fmean(run[kind]["test_ratio"] for run in group) for kind in ("cross_entropy", "recipe")]
        differences = [difference(run) for run in group]
        cells = [corpus, NAMES[architecture], f"{bleu:.1f}", str(len(group)), *(f"{score:.2f}" for score in scores)]
        cells += [f"{fmean(differences):+.2f}", f"{min(differences):+.2f}", *(f"{ratio:.2f}" for ratio in ratios)]
        lines.append(f"| {' | '.join(cells)} |")
    mean, error = overall(runs)
    note = (
        "Test BLEU and length ratio of greedy output. *Difference*: default minus cross-entropy, mean of validation "
        f"and test set; *smallest*: of a single comparison. Mean of all {len(runs)} comparisons: {mean:+.2f} "
        f"± {error:.2f} (standard error over comparisons)."
    )
    return "\n".join([*lines, "", note, ""])
