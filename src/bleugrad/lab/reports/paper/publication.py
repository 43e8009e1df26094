"""A run beside the paper: its published scores, and each setting of its training section, the same or not.

Zhukov, Golikov and Kretov, *Differentiable lower bound for expected BLEU score*, 2017, sections 4.2 and 5.
"""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from bleugrad.lab.reports.page import Quiet
from bleugrad.lab.reports.paper.tables import Summary, Table, score

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
PAIRS = {"iwslt14": "153,000", "wmt14": "4,500,000"}
DIRECTIONS = {"iwslt14": "IWSLT'14 de-en", "wmt14": "WMT'14 de-en"}
NOT_RUN = "not run"
PUBLISHED_WORDS = "words of the published lists"
TOKENS = {"iwslt14": PUBLISHED_WORDS, "wmt14": "words, the 50,000 most frequent"}
"""Tokens of the corpora that the paper refers to: Ranzato et al. (2016) and Luong et al. (2015)."""


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
    return Table(
        ["setting", "paper", "here", ""],
        rows,
        "The settings that the paper and its sources of data state, and those of this run.",
    )


def stated_settings(summary: Summary, config: Values) -> list[tuple[str, str, str]]:
    """(setting, in the paper, here) for each setting of the paper's sections on data, model and training."""
    corpus = published_corpus(config)
    layers, units = (2, 512) if corpus == "wmt14" else (1, 256)
    model, base, tuning = config["model"], config["base"], config["tuning"]
    lstm = model["kind"] == "lstm"
    kind = "LSTM" if lstm else model["kind"]
    pairs = {run.get("training_pairs") for run in summary["runs"]["base"]} - {None}
    objectives = {label: table["objective"] for label, table in config["branches"].items()}
    return [
        ("corpus", DIRECTIONS[corpus], DIRECTIONS.get(summary["corpus"], str(summary["corpus"]))),
        ("training pairs", PAIRS[corpus], _few(f"{number:,}" for number in pairs) or "not recorded"),
        ("longest training sentence", "50 words", _longest(config["data"])),
        ("tokens", TOKENS[corpus], _tokens(config["data"])),
        (
            "encoder",
            _layers(layers, units, "bidirectional LSTM"),
            _layers(model["encoder_layers"], model["hidden"], "bidirectional LSTM" if lstm else kind),
        ),
        ("decoder", _layers(layers, units, "LSTM"), _layers(model["decoder_layers"], model["hidden"], kind)),
        ("attention", "multiplicative, input feeding", "multiplicative, input feeding" if lstm else "dot products"),
        ("optimizer", "Adam", "AdamW" if base["weight_decay"] else "Adam"),
        ("first phase", "cross-entropy, 20 epochs", f"cross-entropy, {_epochs(base)}"),
        ("learning rate, first phase", "0.0001", _rate(base["learning_rate"], base["decay"])),
        ("weights of the second phase", "best on validation", "best on validation"),
        ("second phase", "5 epochs", _epochs(tuning)),
        ("learning rate, CE and LB", "0.0001", _rates(tuning, tuning["learning_rate"])),
        *_reinforce_settings(corpus, tuning, objectives),
        ("LB", "scores of sentences, smoothing 1", _bound(objectives)),
        ("runs", "8", str(len(summary["seeds"]))),
        ("searches", "greedy, beam 5", ", ".join(summary["searches"])),
    ]


def _longest(data: Values) -> str:
    return f"{data['max_length']} words" if data["max_length"] else "no limit"


def _tokens(data: Values) -> str:
    size = data["vocabulary_size"]
    if data["units"] != "words":
        return f"subwords ({data['units']})" + (f", {size:,}" if size else "")
    if data["vocabulary_source"] == data["vocabulary_target"] == "corpus":
        return PUBLISHED_WORDS
    if size:
        return f"words, the {size:,} most frequent"
    return f"words that occur {data['min_count']} times or more" if data["min_count"] > 1 else "all words"


def _layers(number: int, units: int, kind: str) -> str:
    return f"{kind}, {number} layer{'s' if number > 1 else ''}, {units} units"


def _epochs(phase: Values) -> str:
    early = f", at most, stopped after {phase['early_stopping']} without gain" if phase["early_stopping"] else ""
    return f"{phase['epochs']} epoch{'s' * (phase['epochs'] != 1)}{early}"


def _rate(rate: float, decay: str) -> str:
    text = f"{rate:.6f}".rstrip("0")
    return text if decay == "none" else f"{text}, decay: {decay}"


def _rates(tuning: Values, centre: float) -> str:
    factors = tuning["factors"]
    if list(factors) == [1.0]:
        return _rate(centre, tuning["decay"])
    rates = ", ".join(_rate(centre * factor, "none") for factor in factors)
    return f"best of {rates}{'' if tuning['decay'] == 'none' else ', decay: ' + tuning['decay']}"


def _reinforce_settings(corpus: str, tuning: Values, objectives: Mapping[str, Values]) -> list[tuple[str, str, str]]:
    """Rate and samples of REINFORCE, which table 2 of the paper does not have."""
    found = [one for one in objectives.values() if one["name"] == "reinforce"]
    ways = {"sample": "sequences that the decoder samples", "reference": "tokens sampled from reference rows"}
    here = _few(ways.get(one.get("feeding", "reference"), one.get("feeding", "")) for one in found)
    stated = (NOT_RUN, NOT_RUN) if corpus == "wmt14" else ("0.00001", ways["sample"])
    rate = _rates(tuning, tuning["reinforce_learning_rate"]) if found else NOT_RUN
    return [("learning rate, RF", stated[0], rate), ("RF", stated[1], here or NOT_RUN)]


def _bound(objectives: Mapping[str, Values]) -> str:
    found = [one for one in objectives.values() if one["name"] == "bound"]
    ways = {"sentence": "scores of sentences", "corpus": "score of the pooled batch"}
    return (
        _few(f"{ways[one.get('level', 'corpus')]}, smoothing {one.get('smoothing', 1.0):g}" for one in found) or NOT_RUN
    )


def _few(values: Any) -> str:
    """Each different value once."""
    return "; ".join(dict.fromkeys(values))
