"""BLEU against sentences per second of trained models: LSTM with greedy and beam search, and one-pass models.

    python benchmarks/one_pass.py LSTM=runs/tiny nat=runs/tiny-nat-exact ctc=runs/tiny-ctc-exact
    python benchmarks/one_pass.py LSTM=runs/tiny nat=runs/tiny-nat-exact --output results/one_pass/plane

Each model translates the test set of its run with one thread, in batches and one sentence at a time. The time is
processor time, from text to text, so that other processes on the machine matter little. Candidates take turns and the
best of several rounds counts.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from timing import machine

from bleugrad.lab.data.preparation import prepare
from bleugrad.lab.reports.style import Draw, Palette, save_figure
from bleugrad.lab.training.evaluation import evaluate
from bleugrad.lab.training.system import TranslationSystem, load

BEAM = 5
WAYS = {"batches": "in batches", "alone": "one sentence at a time"}
MARKERS = {"lstm": ("ink", "o"), "nat": ("blue", "D"), "ctc": ("vermillion", "s")}


def candidates(runs: dict[str, Path]) -> dict[str, tuple[TranslationSystem, int]]:
    """Systems and beam widths by name."""
    found = {}
    for name, path in runs.items():
        system = load(path, "cpu")
        if system.config.model.one_pass:
            found[name] = (system, 1)
        else:
            found |= {f"{name}, greedy": (system, 1), f"{name}, beam {BEAM}": (system, BEAM)}
    return found


def translate_alone(system: TranslationSystem, lines: list[str], beam: int) -> list[str]:
    return [system.translate([line], beam)[0] for line in lines]


def measure(systems: dict[str, tuple[TranslationSystem, int]], rounds: int) -> list[dict[str, Any]]:
    """One row per candidate: BLEU, parameters, and sentences per second of processor time."""
    ways: dict[str, Callable[..., list[str]]] = {"batches": TranslationSystem.translate, "alone": translate_alone}
    tests = {name: prepare(system.config.data).test for name, (system, _) in systems.items()}
    best = {(name, way): float("inf") for name in systems for way in ways}
    for turn in range(1 + rounds):
        for name, (system, beam) in systems.items():
            lines = list(tests[name].sources)
            for way, call in ways.items():
                began = time.process_time()
                call(system, lines, beam)
                if turn:
                    best[name, way] = min(best[name, way], time.process_time() - began)
    rows = []
    for name, (system, beam) in systems.items():
        found = evaluate(system, tests[name], "test", beam)
        row = {"name": name, "kind": system.config.model.kind, "beam": beam, "bleu": found.scores.bleu}
        row["parameters"] = sum(parameter.numel() for parameter in system.model.parameters())
        row |= {way: len(tests[name]) / best[name, way] for way in ways}
        rows.append(row | {"signature": found.scores.bleu_signature})
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    return rows


def draw(rows: list[dict[str, Any]]) -> Draw:
    """One panel per way: sentences per second on a logarithmic axis, and BLEU."""

    def draw_plane(figure: Figure, palette: Palette) -> None:
        panels = figure.subplots(2, 1, sharey=True)
        for axes, (way, title) in zip(panels, WAYS.items(), strict=True):
            for row in rows:
                colour, marker = MARKERS[row["kind"]]
                axes.plot(row[way], 100 * row["bleu"], color=getattr(palette, colour), marker=marker, markersize=7)
                axes.annotate(
                    row["name"], (row[way], 100 * row["bleu"]), (0, 7), textcoords="offset points", ha="center"
                )
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_title(title, fontsize=10)
            axes.margins(0.2, 0.25)
            axes.set_ylabel("test BLEU")
        panels[-1].set_xlabel("sentences per second, one thread")

    return draw_plane


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN", help="training runs with the names to show")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default 5)")
    parser.add_argument("--output", type=Path, help="directory for plane.json and the figure")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = {name: Path(path) for name, _, path in (one.partition("=") for one in arguments.runs)}
    systems = candidates(runs)
    corpus = next(iter(systems.values()))[0].config.data.corpus
    record = {"machine": machine(), "corpus": corpus, "rounds": arguments.rounds}
    record["rows"] = rows = measure(systems, arguments.rounds)
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "plane.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        save_figure(arguments.output, "plane", 5.2, draw(rows))


if __name__ == "__main__":
    main()
