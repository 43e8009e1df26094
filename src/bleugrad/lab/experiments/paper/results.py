"""The summary of all stages, the only source of tables, figures and page."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np

from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.text import read_lines
from bleugrad.lab.experiments.paper.plan import BASE, PlannedStage, Protocol, read_scores, read_summary
from bleugrad.lab.experiments.paper.significance import (
    LEVEL,
    Bootstrap,
    Statistics,
    bootstrap_p,
    corpus_bleu,
    interval,
    paired_t,
    sentence_statistics,
)
from bleugrad.lab.runs.directory import TIMINGS, evaluation_file
from bleugrad.lab.runs.files import read_records

SETTLED = 0.002
"""A base without early stopping has converged if its last epochs gain less BLEU than this, in 0..1."""
LAST_EPOCHS = 3


def summarise(protocol: Protocol, seeds: Sequence[int], test: Split) -> dict[str, Any]:
    """The results of seeds whose stages are all done."""
    config = protocol.config
    systems = {BASE: "base", **{label: branch.title for label, branch in protocol.branches.items()}}
    searches = config.searches
    runs = {label: [_run_of(protocol, seed, label, searches) for seed in seeds] for label in systems}
    scores = next(iter(runs[BASE][0]["test"].values()))
    return {
        "corpus": _corpus_name(config.data),
        "test_sentences": len(test),
        "references": test.most_references,
        "seeds": list(seeds),
        "searches": list(searches),
        "titles": systems,
        "objectives": {label: branch.overrides for label, branch in protocol.branches.items()},
        "bleu_signature": scores["bleu_signature"],
        "chrf_signature": scores["chrf_signature"],
        "runs": runs,
        "scores": {name: _compare(protocol, runs, name, beam, test) for name, beam in searches.items()},
        "examples": choose_examples(protocol, seeds[0], list(systems), test),
    }


def _corpus_name(data: DataConfig) -> str:
    """The name of the corpus, or of the folder of the files."""
    return Path(data.directory).name if data.corpus == "files" and data.directory else data.corpus


def _run_of(protocol: Protocol, seed: int, label: str, searches: Mapping[str, int]) -> dict[str, Any]:
    """A base, or the chosen try of a branch, with its scores and the scores of all tries."""
    stage = PlannedStage("base", seed, BASE) if label == BASE else protocol.best_try(seed, label)
    directory = protocol.directory(stage)
    found = read_summary(directory)
    run = {
        "seed": seed,
        "directory": str(directory.relative_to(protocol.output)),
        **_pick(found, "best_bleu", "best_epoch", "epochs"),
        "training_pairs": found.get("training_pairs"),  # runs of earlier versions do not record it
        "history": [_pick(point, "epoch", "bleu") for point in found["history"]],
        "test": {name: read_scores(directory, beam) for name, beam in searches.items()},
    }
    if stage.kind == "base":
        stopped = found["epochs"] < protocol.config.base.epochs
        history = [point["bleu"] for point in found["history"]]
        return run | {"converged": stopped or settled(history), "seconds_per_epoch": epoch_seconds(protocol, [stage])}
    tries = protocol.tries(seed, label)
    tried = []
    for one in tries:
        best = _pick(read_summary(protocol.directory(one)), "best_bleu", "best_epoch")
        tried.append({"learning_rate": protocol.rate(one), **best})
    seconds = epoch_seconds(protocol, tries)
    return run | {"learning_rate": protocol.rate(stage), "tries": tried, "seconds_per_epoch": seconds}


def _pick(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names}


def settled(history: Sequence[float]) -> bool:
    """Whether the last epochs gain almost nothing.

    Example:
        >>> settled([0.1, 0.2, 0.3, 0.4]), settled([0.3, 0.301, 0.3, 0.299])
        (False, True)
    """
    before, after = history[:-LAST_EPOCHS], history[-LAST_EPOCHS:]
    return bool(before) and max(after) - max(before) < SETTLED


def epoch_seconds(protocol: Protocol, stages: Sequence[PlannedStage]) -> float | None:
    """Seconds of training per epoch, without validation: the median over epochs; None without saved timings.

    An epoch that was interrupted counts by the time per step of the part after the last resume.
    """
    found = []
    for stage in stages:
        directory = protocol.directory(stage)
        steps = {point["epoch"]: point["step"] for point in read_summary(directory)["history"]}
        timings = read_records(directory / TIMINGS) if (directory / TIMINGS).exists() else []
        per_step = {timing["epoch"]: timing["seconds"] / timing["steps"] for timing in timings}
        found += [per_step[epoch] * (steps[epoch] - steps.get(epoch - 1, 0)) for epoch in per_step if epoch in steps]
    return median(found) if found else None


def _compare(
    protocol: Protocol, runs: Mapping[str, Sequence[Mapping[str, Any]]], search: str, beam: int, test: Split
) -> dict[str, Any]:
    """Means, intervals and pairwise tests for one kind of search."""
    config = protocol.config
    bootstrap = Bootstrap(len(test), config.resamples)

    def statistics_of(run: Mapping[str, Any]) -> Statistics:
        lines = read_lines(evaluation_file(protocol.output / run["directory"], "test", beam, "txt"))
        return sentence_statistics(lines, test.references, config.evaluation.tokenize)

    statistics = {label: [statistics_of(run) for run in of_label] for label, of_label in runs.items()}
    resampled = {label: bootstrap.scores(found) for label, found in statistics.items()}
    bleu = {label: [run["test"][search]["bleu"] for run in of_label] for label, of_label in runs.items()}
    table = {
        label: {
            "mean": mean(values),
            "std": stdev(values) if len(values) > 1 else None,
            "interval": interval(resampled[label]),
        }
        for label, values in bleu.items()
    }
    observed = {label: mean(corpus_bleu(run.sum(axis=0)) for run in found) for label, found in statistics.items()}
    pairs = [
        {
            "one": one,
            "other": other,
            **asdict(paired_t(bleu[one], bleu[other])),
            "bootstrap_p": bootstrap_p(observed[one] - observed[other], resampled[one], resampled[other]),
            "equal": all(map(np.array_equal, statistics[one], statistics[other])),
        }
        for other, one in combinations(runs, 2)
    ]
    best = supported_best([label for label in runs if label != BASE], table, pairs)
    return {"systems": table, "pairs": pairs, "best": best}


def supported_best(
    labels: Sequence[str], table: Mapping[str, Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]]
) -> str | None:
    """The best objective if the paired test separates it from cross-entropy and the second best, else None."""
    if len(labels) < 2:
        return None
    first, second = sorted(labels, key=lambda label: -table[label]["mean"])[:2]
    rivals = {second, *({"ce"} & set(labels))} - {first}
    tested = [pair["p"] for pair in pairs if {pair["one"], pair["other"]} in ({first, rival} for rival in rivals)]
    return first if all(p is not None and p < LEVEL for p in tested) else None


def choose_examples(protocol: Protocol, seed: int, labels: Sequence[str], test: Split) -> list[dict[str, Any]]:
    """Random test sentences that the systems translate differently with greedy search."""
    folders = {label: protocol.directory(PlannedStage("test", seed, label)) for label in labels}
    lines = {label: read_lines(evaluation_file(folder, "test", 1, "txt")) for label, folder in folders.items()}
    different = [index for index in range(len(test)) if len({found[index] for found in lines.values()}) > 1]
    number = min(protocol.config.examples, len(different))
    return [
        {
            "sentence": index + 1,
            "source": test.sources[index],
            "references": list(test.references[index]),
            "translations": {label: found[index] for label, found in lines.items()},
        }
        for index in sorted(random.Random(0).sample(different, number))
    ]
