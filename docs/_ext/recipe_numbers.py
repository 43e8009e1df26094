"""The study of recipes: runs of the protocol in results/recipes that change one setting each."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from statistics import fmean
from typing import Any

import translation
from measured import NUMBERS, RESULTS, markdown, number, table
from translation import Summary

FOLDER = "recipes"
LONG_SENTENCES = "iwslt14"
"""The corpus of the recipes for sentence ends and confidence, which have a table of their own."""
SEARCHES = ("greedy", "beam 5")
SHORT = {"cross_entropy_weight": "CE weight", "data.batch_size": "batch size"}


def settings(overrides: Mapping[str, Any]) -> str:
    """The settings of a recipe, the objective first."""
    name, *others = _flat(overrides)
    return ", ".join([f"`{name[1]}`", *(f"{SHORT.get(key, key)} {value}" for key, value in others)])


def _flat(overrides: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in overrides.items():
        if isinstance(value, Mapping):
            yield from _flat(value, "" if key == "objective" else f"{key}.")
        else:
            yield f"{prefix}{key}", value


def gain(runs: list[Summary], base: list[Summary], search: str | None) -> float:
    """Gain over the weights before tuning, mean over seeds: on the test set with a search, or on validation."""

    def score(run: Summary) -> float:
        return float(run["best_bleu"] if search is None else run["test"][search]["bleu"])

    before = {run["seed"]: score(run) for run in base}
    return fmean(score(run) - before[run["seed"]] for run in runs)


def rows(summary: Summary) -> Iterator[list[str]]:
    """One row per recipe: gains over the weights before tuning, gain of the beam over greedy search, and length."""
    base = summary["runs"]["base"]
    searches = summary["searches"]
    for label, overrides in summary["objectives"].items():
        runs = summary["runs"][label]
        gains = [gain(runs, base, search) for search in (None, *searches)]
        gains.append(fmean(run["test"][searches[1]]["bleu"] - run["test"][searches[0]]["bleu"] for run in runs))
        length = fmean(run["test"][searches[0]]["length_ratio"] for run in runs)
        rates = "/".join(sorted({f"{run['learning_rate']:g}" for run in runs}))
        yield [
            label,
            settings(overrides),
            rates,
            *(f"{round(100 * value, 2) + 0.0:+.2f}" for value in gains),
            f"{length:.3f}",
        ]


def section(name: str, summary: Summary) -> str:
    """The recipes on one corpus."""
    header = ["recipe", "settings", "learning rate", "validation gain", "test gain, greedy", "test gain, beam 5"]
    header += ["beam 5 minus greedy", "length ratio"]
    base = {search: translation.score(summary["scores"][search]["systems"]["base"]) for search in summary["searches"]}
    before = ", ".join(f"{score} ({search})" for search, score in base.items())
    return (
        f"**{name}**, {translation.number_of_seeds(summary)}. Test BLEU before tuning: {before}.\n\n"
        f"{markdown(header, rows(summary))}"
    )


@table
def recipes() -> str:
    """Every other corpus of the study."""
    found = translation.kept(RESULTS / FOLDER)
    return "\n".join(section(name, summary) for name, summary in found.items() if name != LONG_SENTENCES)


@table
def ends() -> str:
    """The recipes for sentence ends and confidence."""
    return section(LONG_SENTENCES, translation.kept(RESULTS / FOLDER)[LONG_SENTENCES])


@table
def several_references() -> str:
    """Validation gains of the recipes that use all references."""
    rows = []
    tries = f"{FOLDER}/e2e_nlg"
    for path in sorted((RESULTS / tries).glob("*/summary.json")):
        history = json.loads(path.read_text(encoding="utf-8"))["history"]
        before, best = history[0], max(history, key=lambda scores: scores["bleu"])
        config = translation.settings(f"{tries}/{path.parent.name}")
        objective = config["objective"]
        rows.append(
            [
                path.parent.name,
                "own tokens" if objective["feeding"] == "greedy" else "first reference",
                f"{objective['cross_entropy_weight']:g}",
                str(objective["end_positions"]),
                str(config["data"]["batch_size"]),
                f"{config['optimizer']['learning_rate']:g}",
                f"{100 * (best['bleu'] - before['bleu']):+.2f}",
                f"{100 * (best['precisions'][3] - before['precisions'][3]):+.1f}",
                f"{best['length_ratio']:.3f}",
                f"{100 * (best['chrf'] - before['chrf']):+.1f}",
            ]
        )
    header = ["recipe", "decoder input", "CE weight", "end positions", "batch size", "learning rate", "BLEU gain"]
    header += ["4-gram precision gain", "length ratio", "chrF gain"]
    return markdown(header, rows)


def _mean(runs: list[Summary], search: str, without_brevity: bool) -> float:
    """Test BLEU x 100, mean over seeds; divided by its brevity penalty if that is left out."""
    tests = [run["test"][search] for run in runs]
    return 100 * fmean(one["bleu"] / (one["brevity_penalty"] if without_brevity else 1) for one in tests)


@table
def explained() -> str:
    """What could explain the gain of the recommended recipe more cheaply: better weights before, and length."""
    rows = []
    for name, summary in translation.default_runs().items():
        runs = summary["runs"]
        for search in summary["searches"]:
            gains = [
                _mean(runs["recommended"], search, without) - _mean(runs[other], search, without)
                for other, without in (("ce", False), ("base", False), ("ce", True))
            ]
            penalties = [
                f"{fmean(run['test'][search]['brevity_penalty'] for run in runs[label]):.3f}"
                for label in ("ce", "recommended")
            ]
            rows.append([translation.shown_name(name), search, *(f"{gain:+.2f}" for gain in gains), *penalties])
    header = ["corpus and model", "search", "gain over cross-entropy", "gain over the weights before tuning"]
    header += ["gain without brevity penalty", "brevity penalty, cross-entropy", "brevity penalty, recommended"]
    return markdown(header, rows)


CHANGES = {
    "ce": "more cross-entropy",
    "recommended": "**the recipe**",
    "no-sharpness": "`sharpness=1`",
    "no-end-positions": "`end_positions=0`",
    "sentence-level": '`level="sentence"`',
    "fixed-share": "BLEU plus 0.1 times the cross-entropy, instead of a share",
    "given-length": "the same, and a given length: EOS is a word to match",
    "no-cross-entropy": "BLEU alone",
    "recommended-own": "the recipe with own tokens",
    "reinforce-own": "REINFORCE on own samples",
}
"""What the runs of results/ablations change, in the order of the table."""


@table
def ablations() -> str:
    """The recommended recipe without one of its parts: validation and test BLEU, and the processor time of a try."""
    runs, seconds, rows = {}, {}, []
    for name in (f"{translation.DEFAULT}/multi30k-lstm", "ablations/multi30k-lstm"):
        runs |= translation.one_run(name)["runs"]
        seconds |= translation.processor_seconds(name)
    for label, change in CHANGES.items():
        scores = [runs[label][0]["best_bleu"], *(runs[label][0]["test"][search]["bleu"] for search in SEARCHES)]
        shown = [f"{100 * score:.2f}" for score in scores]
        length = f"{runs[label][0]['test'][SEARCHES[0]]['length_ratio']:.3f}"
        rows.append([change, *shown, length, f"{seconds[label] / 60:.1f}" if label in seconds else ""])
    header = ["change", "validation BLEU", "test BLEU, greedy", "test BLEU, beam 5", "length ratio, greedy"]
    return markdown([*header, "processor time, minutes"], rows)


@table
def lengths() -> str:
    """The gain of the recommended recipe if the length of both is corrected at decoding, as validation chose."""
    rows = []
    for name in translation.default_runs():
        if not (path := RESULTS / "lengths" / f"{name}.json").exists():
            continue
        runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
        for beam in sorted({record["beam"] for record in runs["ce"]}):
            ours = {label: [one for one in runs[label] if one["beam"] == beam] for label in ("ce", "recommended")}
            bleu = {
                (label, key): 100 * fmean(one[key]["bleu"] for one in records)
                for label, records in ours.items()
                for key in ("usual", "test")
            }
            gains = [f"{bleu['recommended', key] - bleu['ce', key]:+.2f}" for key in ("usual", "test")]
            penalties = [", ".join(f"{one['penalty']:g}" for one in records) for records in ours.values()]
            shown = [f"{bleu['ce', key]:.2f}" for key in ("usual", "test")]
            rows.append(
                [translation.shown_name(name), "greedy" if beam == 1 else f"beam {beam}", *shown, *gains, *penalties]
            )
    header = ["corpus and model", "search", "cross-entropy", "cross-entropy, corrected", "gain of the recipe"]
    header += ["gain if both are corrected", "penalty, cross-entropy", "penalty, recommended"]
    return markdown(header, rows)


@number
def own_tokens_cost() -> str:
    seconds = translation.processor_seconds(f"{translation.DEFAULT}/multi30k-lstm")
    return f"{seconds['recommended-own'] / seconds['recommended']:.1f}"


def _precision_bleu(precision: str) -> str:
    """Test BLEU of the exact loss on `builtin` with a CTC model, trained in one precision."""
    summary = translation.one_run(f"precision/builtin-ctc-{precision}")
    return translation.score(summary["scores"]["greedy"]["systems"]["exact"])


NUMBERS |= {f"precision-bleu {precision}": partial(_precision_bleu, precision) for precision in ("32", "bf16")}
