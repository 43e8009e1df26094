"""The translation results: every results/NAME/summary.json that ``bleugrad reproduce`` wrote, as tables.

Where no run is kept, the text names the command that makes one.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

from measured import RESULTS, markdown, read

from bleugrad.lab.experiments.paper.significance import paired_t

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STUDY = "reproduce"
NONE_YET = """No run of the protocol is kept in `results/` yet. `bleugrad reproduce` runs it: cross-entropy first, then
each objective from the best weights, with the same number of learning rates, several seeds, greedy search and beam
search. The summary appears here once the run is kept as `results/NAME`.
"""
CORPORA = {
    "multi30k": "image captions, German to English",
    "iwslt14": "TED talks, German to English",
    "tatoeba": "short sentences, German to English",
    "tatoeba_tiny": "very short sentences, German to English",
    "e2e_nlg": "restaurant descriptions from data",
    "builtin": "artificial grammar",
}
"""Corpora in the order of the pages, natural text first."""
NAMES = {
    "base": "before tuning",
    "ce": "cross-entropy",
    "reinforce": "REINFORCE",
    "bound": "paper's bound",
    "recommended-own": "with own tokens",
}
"""Objectives whose name on the pages is not their label."""
USUAL_LENGTH = 50
"""Longest training sentence, in words, if the settings do not say otherwise."""
DEFAULT = "default"
"""The folder of the runs of the recommended recipe, one per corpus and model: ``multi30k-lstm``."""
SHOWN = ("recommended", "recommended-own")
"""The objectives of the short table."""
MODELS = {"lstm": "LSTM", "transformer": "Transformer"}

Summary = dict[str, Any]


def kept(results: Path = RESULTS) -> dict[str, Summary]:
    """Summaries by the name of their folder, in the order of the pages."""
    found = {}
    for path in sorted(results.glob("*/summary.json")):
        about = path.with_name("run.json")
        if about.exists() and json.loads(about.read_text(encoding="utf-8")).get("study") == STUDY:
            found[path.parent.name] = json.loads(path.read_text(encoding="utf-8"))
    order = [*CORPORA]

    def place(name: str) -> tuple[int, str]:
        corpus = name.partition("-")[0]
        return order.index(corpus) if corpus in order else len(order), name

    return {name: found[name] for name in sorted(found, key=place)}


def default_runs() -> dict[str, Summary]:
    """The runs of the recommended recipe by corpus and model."""
    return kept(RESULTS / DEFAULT)


def shown_name(name: str) -> str:
    """A corpus, and the model if the name of the run has one."""
    corpus, _, model = name.partition("-")
    return f"{corpus}, {MODELS[model]}" if model in MODELS else name


def objectives(summary: Summary) -> dict[str, str]:
    """Names of the trained systems by label."""
    return {label: NAMES.get(label, label) for label in summary["titles"]}


def number_of_seeds(summary: Summary) -> str:
    count = len(summary["seeds"])
    return f"{count} seed{'s' if count > 1 else ''}"


def points(value: float) -> str:
    """BLEU x 100."""
    return f"{100 * value:.2f}"


def score(system: Summary) -> str:
    """Mean and standard deviation over seeds."""
    spread = "" if system["std"] is None else f" ± {points(system['std'])}"
    return points(system["mean"]) + spread


def difference(scores: Summary, label: str, other: str = "ce") -> Summary | None:
    """The paired comparison of a system with another one, with the sign of ``label - other``."""
    for pair in scores["pairs"]:
        if {pair["one"], pair["other"]} == {label, other}:
            sign = 1 if pair["one"] == label else -1
            return pair | {"difference": sign * pair["difference"]}
    return None


def against(scores: Summary, label: str, other: str = "ce") -> str:
    """Difference from another system, with the p-value of a paired t-test over seeds; of one seed, over sentences."""
    pair = difference(scores, label, other)
    if pair is None:
        return ""
    if pair.get("equal"):
        return "equal output"
    p = f"p = {pair['bootstrap_p']:.2g} over sentences" if pair.get("p") is None else f"p = {pair['p']:.2g}"
    return f"{100 * pair['difference']:+.2f} ({p})"


def gain(name: str) -> str:
    """BLEU over cross-entropy, or over another objective, named as on a page.

    ``multi30k own-mix greedy``, ``beam/builtin candidates-mix beam 5 over sharp-mix``. An objective of another run with
    the same first phases is named with that run: ``paper/iwslt14_own own-mix greedy over iwslt14 ce``.
    """
    return f"{100 * _named_pair(name)['difference']:+.2f}"


def p_value(name: str) -> str:
    """The p-value of a gain over the sentences of the test set, by bootstrap."""
    return f"{_named_pair(name)['bootstrap_p']:.2g}"


def _named_pair(name: str) -> Summary:
    compared, _, other = name.partition(" over ")
    run, label, search = compared.split(" ", 2)
    other_run, _, other = other.rpartition(" ")
    if other_run:
        return _across_runs(run, label, other_run, other, search)
    pair = difference(one_run(run)["scores"][search], label, other or "ce")
    if pair is None:
        raise KeyError(name)
    return pair


def _across_runs(run: str, label: str, other_run: str, other: str, search: str) -> Summary:
    """The paired t-test of objectives of two runs, which must have the same first phases."""
    if scores_by_seed(run, "base", search) != scores_by_seed(other_run, "base", search):
        raise ValueError(f"the first phases of {run} and {other_run} differ")
    ones, others = scores_by_seed(run, label, search), scores_by_seed(other_run, other, search)
    return asdict(paired_t([*ones.values()], [others[seed] for seed in ones]))


def scores_by_seed(run: str, label: str, search: str) -> dict[int, float]:
    """Test BLEU of an objective by seed."""
    return {one["seed"]: one["test"][search]["bleu"] for one in one_run(run)["runs"][label]}


def one_run(name: str) -> Summary:
    """The summary of ``results/NAME``, where NAME may have several parts: ``multi30k`` or ``beam/multi30k``."""
    if not (RESULTS / name / "summary.json").exists():
        raise KeyError(name)
    found: Summary = read(f"{name}/summary.json")
    return found


def table(summary: Summary, seconds: dict[str, float] | None = None) -> str:
    """Test BLEU of every system and search; the best is bold where tests support it. ``seconds`` are a last column."""
    searches = summary["searches"]
    header = ["objective", *(f"{search}{more}" for search in searches for more in (", BLEU", ", difference from CE"))]
    header += [] if seconds is None else ["processor time, s"]
    rows = []
    for label, title in objectives(summary).items():
        row = [title]
        for search in searches:
            scores = summary["scores"][search]
            shown = score(scores["systems"][label])
            row += [f"**{shown}**" if scores["best"] == label else shown, against(scores, label)]
        if seconds is not None:
            row.append(f"{seconds[label]:,.0f}" if label in seconds else "")
        rows.append(row)
    return markdown(header, rows)


def processor_seconds(name: str) -> dict[str, float]:
    """Processor time of the chosen tries by label, mean over the seeds whose try was not interrupted."""
    lines = (RESULTS / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    times = {one["stage"]: one["processor_seconds"] for one in map(json.loads, lines) if not one.get("resumed")}
    found = {}
    for label, runs in one_run(name)["runs"].items():
        if known := [times[run["directory"]] for run in runs if run["directory"] in times]:
            found[label] = mean(known)
    return found


def one_section(name: str) -> str:
    """One run that a page discusses: its table with processor times, and its settings."""
    summary, config = one_run(name), settings(name)
    made = "" if config is None else f"{sizes(config)} "
    return f"{table(summary, processor_seconds(name))}\n{made}{caption(name, summary)}\n"


def caption(name: str, summary: Summary) -> str:
    """Size of the test set, number of seeds and signature."""
    return (
        f"Test BLEU of {summary['test_sentences']:,} sentences, {number_of_seeds(summary)}, "
        f"`{summary['bleu_signature']}`. All scores, intervals and learning rates are in `results/{name}`."
    )


def sizes(config: Summary) -> str:
    """Data, model and schedule of a run."""
    data, model, base, tuning = (config[part] for part in ("data", "model", "base", "tuning"))
    pairs = data["builtin_train"] if data["corpus"] == "builtin" else data["train_limit"]
    short = f" of at most {data['max_length']} words" if 0 < data["max_length"] < USUAL_LENGTH else ""
    words = "words" if data["units"] == "words" else f"{data['vocabulary_size'] or 8000:,} subwords"
    rates = {
        which: ", ".join(f"{tuning[name] * factor:g}" for factor in tuning["factors"])
        for which, name in (("", "learning_rate"), (" for REINFORCE", "reinforce_learning_rate"))
    }
    decays = {
        "step": f", multiplied by {tuning['decay_factor']:g} after each epoch",
        "cosine": ", which fall to 0 along a cosine",
    }
    kind = "a Transformer with " if model.get("kind") == "transformer" else ""
    first = f"at most {base['epochs']} epochs of cross-entropy at learning rate {base['learning_rate']:g}"
    second = f"{tuning['epochs']} epoch{'s' * (tuning['epochs'] > 1)} per objective"
    return (
        f"Training data: {f'{pairs:,} pairs' if pairs else 'all pairs'}{short}, {words}. "
        f"Model: {kind}{model['hidden']} hidden units{', bfloat16' if base['precision'] == 'bf16' else ''}. "
        f"First phase: {first}. "
        f"Second phase: {second} at {' and '.join(f'{values}{which}' for which, values in rates.items())}"
        f"{decays.get(tuning['decay'], '')}."
    )


def section(name: str, summary: Summary, folder: str | None = None, config: Summary | None = None) -> str:
    """One corpus: its table, its settings if given, and its curves if ``folder``, the path to results/, is given."""
    made = "" if config is None else f"{sizes(config)} "
    text = f"**{name}**: {CORPORA.get(name, name)}\n\n{table(summary)}\n{made}{caption(name, summary)}\n"
    if folder is None:
        return text
    return (
        f"{text}\n![Validation BLEU on {name} over the epochs of both phases]({folder}/{name}/figures/training.svg)\n"
    )


def results(found: dict[str, Summary] | None = None, folder: str | None = None) -> str:
    """All corpora."""
    found = kept() if found is None else found
    return "\n".join(section(name, summary, folder, settings(name)) for name, summary in found.items()) or NONE_YET


def settings(name: str) -> Summary | None:
    """Settings of a kept run."""
    path = RESULTS / name / "config.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def signatures(found: dict[str, Summary] | None = None) -> str:
    """The sacreBLEU signatures of all runs."""
    found = kept() if found is None else found
    return " or ".join(f"`{signature}`" for signature in sorted({run["bleu_signature"] for run in found.values()}))


def effect(found: dict[str, Summary] | None = None, labels: tuple[str, ...] = SHOWN) -> str:
    """Cross-entropy and the gains of some objectives over it: one row per run and search."""
    found = default_runs() if found is None else found
    if not found:
        return NONE_YET
    rows = []
    for name, summary in found.items():
        for search in summary["searches"]:
            scores = summary["scores"][search]
            ce = scores["systems"].get("ce")
            cells = [against(scores, label) if label in summary["titles"] else "" for label in labels]
            rows.append([f"{shown_name(name)}, {number_of_seeds(summary)}", search, score(ce) if ce else "", *cells])
    header = [
        "corpus and model",
        "search",
        "cross-entropy, BLEU",
        *(f"{NAMES.get(label, label)}, gain" for label in labels),
    ]
    return markdown(header, rows)
