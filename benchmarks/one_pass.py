"""BLEU against sentences per second of trained models: greedy and beam search token by token, and one-pass models.

    python benchmarks/one_pass.py LSTM=runs/tiny nat=runs/tiny-nat-exact ctc=runs/tiny-ctc-exact
    python benchmarks/one_pass.py LSTM=runs/1,runs/2 graph=runs/3,runs/4 --mbr --output results/one_pass/plane

Each model translates the test set of its run with one thread, in batches and one sentence at a time. The time is
processor time, from text to text, so that other processes on the machine matter little. Candidates take turns and the
best of several rounds counts. Several runs of a name are seeds: BLEU is their mean, and the speed is that of the first.
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from timing import best_times, machine

from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.preparation import prepare_split
from bleugrad.lab.reports.style import Draw, Palette, save_figure
from bleugrad.lab.training.evaluation import evaluate
from bleugrad.lab.training.system import TranslationSystem, load

BEAM = 5
WAYS = {"batches": "in batches", "alone": "one sentence at a time"}
MARKERS = {
    "lstm": ("ink", "o"),
    "transformer": ("purple", "^"),
    "nat": ("blue", "D"),
    "ctc": ("vermillion", "s"),
    "graph": ("green", "P"),
}


@dataclass(frozen=True)
class Candidate:
    """Models of one name, one per seed, with a search, and their test set."""

    name: str
    systems: list[TranslationSystem]
    split: Split
    beam: int | None = 1
    search: str = "beam"

    @property
    def kind(self) -> str:
        """The kind of model."""
        return self.systems[0].config.model.kind

    def together(self) -> None:
        """Translate the test set with the first model."""
        self.systems[0].translate(self.split.sources, self.beam, self.search)

    def alone(self, number: int) -> None:
        """Translate sentences of it one by one."""
        for line in self.split.sources[:number]:
            self.systems[0].translate([line], self.beam, self.search)

    def bleus(self) -> list[Any]:
        """The evaluation of each model."""
        return [evaluate(system, self.split, "test", self.beam, self.search) for system in self.systems]


def candidates(runs: dict[str, list[Path]], precision: str, mbr: bool) -> list[Candidate]:
    """All models with their searches."""
    found = []
    for name, paths in runs.items():
        systems = [load(path, "cpu", precision=precision) for path in paths]
        split = prepare_split(systems[0].config.data, "test")
        if systems[0].config.model.one_pass:
            found.append(Candidate(name, systems, split))
            if mbr:
                found.append(Candidate(f"{name}, mbr", systems, split, None, "mbr"))
        else:
            found += [
                Candidate(f"{name}, greedy", systems, split),
                Candidate(f"{name}, beam {BEAM}", systems, split, BEAM),
            ]
    return found


def measure(found: list[Candidate], rounds: int, number: int) -> list[dict[str, Any]]:
    """One row per candidate: BLEU, parameters, and sentences per second of processor time."""
    calls: dict[str, Any] = {f"{one.name} batches": one.together for one in found}
    calls |= {f"{one.name} alone": partial(one.alone, number) for one in found}
    seconds = best_times(calls, rounds, clock=time.process_time)
    rows = []
    for one in found:
        scores = [each.scores for each in one.bleus()]
        bleus = [each.bleu for each in scores]
        row = {"name": one.name, "kind": one.kind, "beam": one.beam or 1, "search": one.search}
        row |= {"bleu": statistics.mean(bleus), "bleus": bleus}
        row["deviation"] = statistics.stdev(bleus) if len(bleus) > 1 else None
        row["parameters"] = sum(parameter.numel() for parameter in one.systems[0].model.parameters())
        row["batches"] = len(one.split) / seconds[f"{one.name} batches"]
        row["alone"] = min(number, len(one.split)) / seconds[f"{one.name} alone"]
        rows.append(row | {"signature": scores[0].bleu_signature})
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    return rows


def draw(rows: list[dict[str, Any]]) -> Draw:
    """One panel per way: sentences per second on a logarithmic axis, and BLEU; a legend below names the points."""

    def draw_plane(figure: Figure, palette: Palette) -> None:
        panels = figure.subplots(2, 1, sharey=True)
        for axes, (way, title) in zip(panels, WAYS.items(), strict=True):
            seen: dict[str, int] = {}
            for row in rows:
                colour, marker = MARKERS[row["kind"]]
                number = seen[row["kind"]] = seen.get(row["kind"], -1) + 1
                colour = getattr(palette, colour)
                inside = (colour, palette.paper, palette.orange, palette.azure)[number % 4]  # points of one kind differ
                error = 100 * (row["deviation"] or 0.0)
                style = {"color": colour, "marker": marker, "markersize": 7, "markerfacecolor": inside}
                axes.errorbar(row[way], 100 * row["bleu"], error, linestyle="", label=row["name"], **style)
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_title(title, fontsize=10)
            axes.margins(0.1, 0.15)
            axes.set_ylabel("test BLEU")
        panels[-1].set_xlabel("sentences per second, one thread")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)

    return draw_plane


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "runs", nargs="+", metavar="NAME=RUN,RUN,...", help="names to show, and training runs, one per seed"
    )
    parser.add_argument("--mbr", action="store_true", help="minimum Bayes risk decoding of one-pass models too")
    parser.add_argument("--precision", choices=("32", "bf16"), default="32", help="of all models (default 32)")
    parser.add_argument("--alone", type=int, default=200, help="sentences that are timed one at a time (default 200)")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default 5)")
    parser.add_argument("--output", type=Path, help="directory for plane.json and the figure")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    given = (one.partition("=") for one in arguments.runs)
    runs = {name: [Path(path) for path in paths.split(",")] for name, _, paths in given}
    found = candidates(runs, arguments.precision, arguments.mbr)
    settings = {key: getattr(arguments, key) for key in ("rounds", "alone", "precision")}
    record = {"machine": machine(), "corpus": found[0].systems[0].config.data.corpus, **settings}
    record["runs"] = {name: list(map(str, paths)) for name, paths in runs.items()}
    record["rows"] = rows = measure(found, arguments.rounds, arguments.alone)
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "plane.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        save_figure(arguments.output, "plane", 5.8, draw(rows))


if __name__ == "__main__":
    main()
