"""Test BLEU against the width of the beam, for every objective of a run of ``bleugrad reproduce``.

    python benchmarks/beam_widths.py runs/builtin
    python benchmarks/beam_widths.py runs/builtin --widths 1 2 5 10 20 --labels ce exact own-mix --output results/beam

The run directory must hold the checkpoints of its stages. Each seed translates the test set with the weights that
validation chose, once per width. Translations that are there already are not made again, so that an interrupted
benchmark can be resumed.
"""

import argparse
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from matplotlib.figure import Figure
from timing import keep, machine

from bleugrad.lab.reports.style import Draw, Palette, save_figure
from bleugrad.lab.runs.directory import evaluation_file
from bleugrad.lab.runs.files import read_json
from bleugrad.lab.training.evaluation import evaluate_run

COLOURS = ("ink", "blue", "vermillion", "green", "purple", "orange", "azure")
MARKERS = ("o", "D", "s", "^", "v", "P", "X")
KNOWN = ("ce", "exact", "sharp-mix", "own-mix", "candidates-mix", "soft-beam-sharp", "mrt-own")
"""Objectives that look the same in every figure; others take the looks that are left."""


def measure(run: Path, labels: list[str], widths: list[int]) -> dict[str, list[list[float]]]:
    """BLEU in 0..1 by label: one list per seed, one number per width."""
    runs = read_json(run / "summary.json")["runs"]
    found: dict[str, list[list[float]]] = {}
    for label in labels or [label for label in runs if label != "base"]:
        found[label] = []
        for one in runs[label]:
            directory = run / one["directory"]
            missing = [width for width in widths if not evaluation_file(directory, "test", width, "json").exists()]
            for _ in evaluate_run(directory, "cpu", "test", missing):
                pass
            scores = [read_json(evaluation_file(directory, "test", width, "json"))["bleu"] for width in widths]
            found[label].append(scores)
            shown = "  ".join(f"{width}: {100 * score:.2f}" for width, score in zip(widths, scores, strict=True))
            print(f"{label}, seed {one['seed']}: {shown}", flush=True)
    return found


def table(record: dict[str, Any]) -> str:
    """Markdown: mean and standard deviation over seeds, BLEU in 0..100."""
    header = ["objective", *(f"beam {width}" if width > 1 else "greedy" for width in record["widths"])]
    rows = [[record["titles"][label], *map(_cell, zip(*seeds, strict=True))] for label, seeds in record["bleu"].items()]
    lines = [header, ["---"] * len(header), *rows]
    number = len(next(iter(record["bleu"].values())))
    spread = "one seed" if number == 1 else f"mean ± standard deviation over {number} seeds"
    conditions = f"Test BLEU on {record['corpus']}, {spread}; {record['signature']}."
    return "\n".join([*("| " + " | ".join(line) + " |" for line in lines), "", conditions, ""])


def _cell(scores: tuple[float, ...]) -> str:
    text = f"{100 * mean(scores):.2f}"
    return text if len(scores) == 1 else f"{text} ± {100 * stdev(scores):.2f}"


def looks(labels: list[str]) -> dict[str, int]:
    """The place of each label in the colours and markers."""
    left = [place for place, known in enumerate(KNOWN) if known not in labels] or [0]
    others = [label for label in labels if label not in KNOWN]
    found = {label: KNOWN.index(label) for label in labels if label in KNOWN}
    return found | {label: left[number % len(left)] for number, label in enumerate(others)}


def draw(record: dict[str, Any]) -> Draw:
    """Mean BLEU against the width, one line per objective."""

    def draw_widths(figure: Figure, palette: Palette) -> None:
        axes = figure.subplots()
        widths, places = record["widths"], looks(list(record["bleu"]))
        for label, seeds in record["bleu"].items():
            means = [100 * mean(scores) for scores in zip(*seeds, strict=True)]
            colour, marker = getattr(palette, COLOURS[places[label]]), MARKERS[places[label]]
            axes.plot(widths, means, color=colour, marker=marker, markersize=5, label=record["titles"][label])
        axes.set_xscale("log")
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.minorticks_off()
        axes.set_xlabel("width of the beam (1: greedy search)")
        axes.set_ylabel("test BLEU")
        figure.legend(loc="outside lower center", ncols=2)

    return draw_widths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="directory of a finished bleugrad reproduce")
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 2, 5, 10, 20], help="widths of the beam")
    parser.add_argument("--labels", nargs="*", default=[], help="branches of the run (default: all)")
    parser.add_argument("--output", type=Path, help="directory for widths.json, summary.md and the figure")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    summary = read_json(arguments.run / "summary.json")
    bleu = measure(arguments.run, arguments.labels, arguments.widths)
    record = {
        "machine": machine(),
        "corpus": summary["corpus"],
        "seeds": summary["seeds"],
        "signature": summary["bleu_signature"],
        "titles": {label: summary["titles"][label] for label in bleu},
        "widths": arguments.widths,
        "bleu": bleu,
    }
    print("\n" + table(record))
    keep(arguments.output, "widths", record, table(record))
    if arguments.output:
        save_figure(arguments.output, "widths", 4.2, draw(record))


if __name__ == "__main__":
    main()
