"""The translation results: every results/NAME/summary.json that ``bleugrad reproduce`` wrote, as tables.

Where there is none yet, the text says which command makes one.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from measured import RESULTS, markdown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STUDY = "reproduce"
NONE_YET = """No run of the protocol is kept in `results/` yet. `bleugrad reproduce` carries it out: cross-entropy
first, then each objective from the best weights, with as many tries of the learning rate for each, several seeds,
greedy and beam search. Its summary appears here once it is kept as `results/NAME`.
"""

Summary = dict[str, Any]


def kept(results: Path = RESULTS) -> dict[str, Summary]:
    """Summaries by the name of their folder."""
    found = {}
    for path in sorted(results.glob("*/summary.json")):
        about = path.with_name("run.json")
        if about.exists() and json.loads(about.read_text(encoding="utf-8")).get("study") == STUDY:
            found[path.parent.name] = json.loads(path.read_text(encoding="utf-8"))
    return found


def points(value: float) -> str:
    """BLEU as people read it."""
    return f"{100 * value:.2f}"


def score(system: Summary) -> str:
    """Mean and spread over seeds."""
    spread = "" if system["std"] is None else f" ± {points(system['std'])}"
    return points(system["mean"]) + spread


def against(scores: Summary, label: str, other: str = "ce") -> str:
    """Difference from another system over the same seeds, with the p-value of the paired t-test."""
    for pair in scores["pairs"]:
        if {pair["one"], pair["other"]} == {label, other}:
            sign = 1 if pair["one"] == label else -1
            p = "" if pair.get("p") is None else f" (p = {pair['p']:.2g})"
            if pair.get("equal"):
                return "equal output"
            return f"{100 * sign * pair['difference']:+.2f}{p}"
    return ""


def table(summary: Summary) -> str:
    """Test BLEU of every system and search; the best is bold where tests support it."""
    searches = summary["searches"]
    header = ["", *(f"{search}{more}" for search in searches for more in (", BLEU", ", against CE"))]
    rows = []
    for label, title in summary["titles"].items():
        row = [title]
        for search in searches:
            scores = summary["scores"][search]
            shown = score(scores["systems"][label])
            row += [f"**{shown}**" if scores["best"] == label else shown, against(scores, label)]
        rows.append(row)
    return markdown(header, rows)


def caption(name: str, summary: Summary) -> str:
    """How many, and by which signature."""
    return (
        f"Test BLEU of {summary['test_sentences']} sentences, mean ± standard deviation of {len(summary['seeds'])} "
        "seeds; differences from cross-entropy trained on for as long, with the p-value of a paired t-test over seeds. "
        "*base* is the model before, RF REINFORCE, LB the paper's bound. "
        f"`{summary['bleu_signature']}`. Everything else, learning rates tried and intervals, is in "
        f"`results/{name}`."
    )


def sizes(config: Summary) -> str:
    """What the run was made with, as far as it bears on the scores."""
    data, model, base, tuning = (config[part] for part in ("data", "model", "base", "tuning"))
    pairs = data["builtin_train"] if data["corpus"] == "builtin" else data["train_limit"]
    words = "words" if data["units"] == "words" else f"{data['vocabulary_size'] or 8000:,} subwords"
    rates = {
        which: ", ".join(f"{tuning[name] * factor:g}" for factor in tuning["factors"])
        for which, name in (("", "learning_rate"), (" for REINFORCE", "reinforce_learning_rate"))
    }
    decay = f", times {tuning['decay_factor']:g} after each" if tuning["decay"] == "step" else ""
    return (
        f"{f'{pairs:,} pairs' if pairs else 'All pairs'}, {words}, {model['hidden']} units"
        f"{', bfloat16' if base['precision'] == 'bf16' else ''}; at most {base['epochs']} epochs of cross-entropy at "
        f"{base['learning_rate']:g}, then {tuning['epochs']} of each objective at "
        f"{' and '.join(f'{values}{which}' for which, values in rates.items())}{decay}."
    )


def section(name: str, summary: Summary, folder: str | None = None, config: Summary | None = None) -> str:
    """One corpus; with its settings what it was made with, with the way to the results its curves too."""
    made = "" if config is None else f"{sizes(config)} "
    text = f"**{name}**\n\n{table(summary)}\n{made}{caption(name, summary)}\n"
    if folder is None:
        return text
    return (
        f"{text}\n![Validation BLEU on {name} over the epochs of both phases]({folder}/{name}/figures/training.svg)\n"
    )


def results(found: dict[str, Summary] | None = None, folder: str | None = None) -> str:
    """All corpora, or what to do about there being none."""
    found = kept() if found is None else found
    return "\n".join(section(name, summary, folder, settings(name)) for name, summary in found.items()) or NONE_YET


def settings(name: str) -> Summary | None:
    """Those of a kept run."""
    path = RESULTS / name / "config.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def effect(found: dict[str, Summary] | None = None) -> str:
    """What each objective brings over cross-entropy trained on for as long: a line a corpus and search.

    An objective that only one of several corpora has is left to the table of that corpus.
    """
    found = kept() if found is None else found
    if not found:
        return NONE_YET
    titles = {label: title for summary in found.values() for label, title in summary["titles"].items()}
    corpora = Counter(label for summary in found.values() for label in summary["titles"])
    least = min(2, len(found))
    titles = {
        label: title for label, title in titles.items() if corpora[label] >= least and label not in ("base", "ce")
    }
    rows = []
    for name, summary in found.items():
        for search in summary["searches"]:
            scores = summary["scores"][search]
            ce = scores["systems"].get("ce")
            cells = [against(scores, label) if label in summary["titles"] else "" for label in titles]
            rows.append([name, search, str(len(summary["seeds"])), score(ce) if ce else "", *cells])
    return markdown(["results", "search", "seeds", "CE", *titles.values()], rows)
