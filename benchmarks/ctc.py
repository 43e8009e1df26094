"""What the losses of one-pass models cost: CTC beside ``F.ctc_loss``, graphs beside min(E[count], c).

    python benchmarks/ctc.py                        # the tables, a few minutes
    python benchmarks/ctc.py --output results/ctc   # also kept, as JSON and Markdown

Times are forward and backward passes in one thread, the candidates taking turns in one process, best of several rounds;
``loss.py`` says how, and what "as it comes" and "kept" mean. The baseline of CTC includes the log-softmax that
``F.ctc_loss`` needs. References have half as many tokens as there are frames or vertices, drawn from Zipf's law, so
that some n-grams repeat. Memory is the peak of a step beyond its inputs, gradients included.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from loss import ALLOCATORS, RETURNED, milliseconds, peak_kilobytes, step
from timing import machine
from torch import Tensor

import bleugrad

Shape = tuple[int, int, int]
SHAPES: list[Shape] = [(64, 40, 8000), (32, 60, 32000)]
GRAPHS: list[Shape] = [*SHAPES, (8, 240, 8000)]
BLANK = 0


def draw(batch: int, steps: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Logits, and labels without blank."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(batch, steps, vocabulary, generator=generator).requires_grad_()
    frequency = 1 / torch.arange(1, vocabulary, dtype=torch.float64)
    labels = 1 + torch.multinomial(frequency, batch * (steps // 2), replacement=True, generator=generator)
    return logits, labels.view(batch, steps // 2)


def ctc_candidates(batch: int, steps: int, vocabulary: int) -> dict[str, Callable[[], None]]:
    logits, labels = draw(batch, steps, vocabulary)
    frames, lengths = torch.full((batch,), steps), torch.full((batch,), labels.shape[1])
    exact = bleugrad.ExpectedBLEULoss()
    baseline = bleugrad.ExpectedBLEULoss(method="clipped_mean", max_order=2, weights=(0, 1))

    def ctc_loss() -> Tensor:
        return F.ctc_loss(logits.log_softmax(-1).transpose(0, 1), labels, frames, lengths, BLANK, zero_infinity=True)

    return {
        "log_softmax + ctc_loss": step(ctc_loss, logits),
        "exact": step(lambda: exact(bleugrad.CTC(logits, blank_id=BLANK), labels), logits),
        "min(E[count], c), order 2": step(lambda: baseline(bleugrad.CTC(logits, blank_id=BLANK), labels), logits),
    }


def graph_candidates(batch: int, steps: int, vocabulary: int) -> dict[str, Callable[[], None]]:
    logits, labels = draw(batch, steps, vocabulary)
    transitions = torch.randn(batch, steps, steps, generator=torch.Generator().manual_seed(1)).requires_grad_()

    def candidate(method: str) -> Callable[[], None]:
        loss = bleugrad.ExpectedBLEULoss(method=method)
        return step(lambda: loss(bleugrad.Graph(logits, transitions), labels), logits, transitions)

    return {"min(E[count], c)": candidate("clipped_mean"), "exact": candidate("exact")}


FAMILIES = {"ctc": (ctc_candidates, SHAPES), "graph": (graph_candidates, GRAPHS)}
"""Candidates, the baseline first, and the shapes they are measured at."""


def measure_times(family: str, shape: Shape, rounds: int) -> dict[str, float]:
    torch.set_num_threads(1)
    return milliseconds(FAMILIES[family][0](*shape), rounds)


def measure_memory(family: str, shape: Shape, name: str) -> float:
    """Megabytes that the peak grows in two steps; a small step first warms up."""
    torch.set_num_threads(1)
    candidates = FAMILIES[family][0]
    candidates(2, 6, 64)[name]()
    run = candidates(*shape)[name]
    before = peak_kilobytes()
    run()
    run()
    return (peak_kilobytes() - before) / 1024


def in_child(allocator: str, kind: str, family: str, shape: Shape, more: object) -> float | dict[str, float]:
    """What ``measure_times`` or ``measure_memory`` returns in a process of its own."""
    command = [sys.executable, __file__, "--child", kind, family, *map(str, shape), str(more)]
    variables = {**os.environ, **ALLOCATORS[allocator]}
    found = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
    return json.loads(found)


def child(kind: str, family: str, batch: str, steps: str, vocabulary: str, more: str) -> None:
    shape = int(batch), int(steps), int(vocabulary)
    found = measure_times(family, shape, int(more)) if kind == "times" else measure_memory(family, shape, more)
    print(json.dumps(found))


def measure(rounds: int) -> list[dict]:
    rows = []
    for family, (candidates, shapes) in FAMILIES.items():
        for shape in shapes:
            memory = {name: in_child("default", "memory", family, shape, name) for name in candidates(2, 6, 64)}
            for allocator in ALLOCATORS:
                times = in_child(allocator, "times", family, shape, rounds)
                rows.append({"family": family, "shape": shape, "allocator": allocator})
                rows[-1] |= {"milliseconds": times, "megabytes": memory}
                print("\n".join(lines(rows[-1])), flush=True)
    return rows


def lines(row: dict) -> list[str]:
    """One line of a Markdown table for each candidate."""
    times, baseline = row["milliseconds"], next(iter(row["milliseconds"].values()))
    batch, steps, vocabulary = row["shape"]
    size = batch * steps * vocabulary * 4 / 2**20
    start = f"| {row['family']} | {batch}, {steps}, {vocabulary} | {RETURNED[row['allocator']]} |"
    return [
        f"{start} {name} | {time:.1f} | {time / baseline:.2f} | {row['megabytes'][name] / size:.2f} |"
        for name, time in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="timed rounds, of which the best counts (default: 9)")
    parser.add_argument("--output", type=Path, help="folder for ctc.json and summary.md")
    parser.add_argument("--child", nargs=6, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(*arguments.child)
    header = [
        "| model | B, T, V | memory | loss | ms | ratio | extra memory / logits |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(header))
    rows = measure(arguments.rounds)
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        record = {"machine": machine(), "rounds": arguments.rounds, "rows": rows}
        (arguments.output / "ctc.json").write_text(json.dumps(record, indent=1) + "\n")
        table = [*header, *(line for row in rows for line in lines(row))]
        described = record["machine"]
        about = f"{described['processor']}, torch {described['torch']}, one thread, best of {arguments.rounds} rounds."
        (arguments.output / "summary.md").write_text("\n".join([*table, "", about]) + "\n")


if __name__ == "__main__":
    main()
