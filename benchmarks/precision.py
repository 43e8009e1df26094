"""Measures training steps in float32 and in bfloat16 (autocast), of presets with the objectives they are tuned on.

    python benchmarks/precision.py --data ../shared/data --output results/precision

A step is forward, backward, clipping and Adam, as in the trainer, with one thread. The two types take turns on the same
batches in one process, and the best of several rounds counts. bfloat16 pays where the processor multiplies it faster:
where `lscpu` shows `avx512_bf16` or `amx_bf16`.
"""

import argparse
import copy
import time
from pathlib import Path

import torch
from multi30k import add_data_option, load, step
from timing import best_times, keep, machine

from bleugrad.lab.training.objectives.build import build_objective
from bleugrad.lab.training.objectives.config import ExpectedConfig, ObjectiveConfig, RecommendedConfig
from bleugrad.lab.training.processes import SingleProcess

CASES: dict[str, ObjectiveConfig] = {
    "multi30k-ctc": ExpectedConfig("exact"),
    "multi30k-graph": ExpectedConfig("exact"),
    "transformer-multi30k": RecommendedConfig(),
}
PRECISIONS = ("32", "bf16")


def measure(preset: str, objective: ObjectiveConfig, data: str, batches: int, rounds: int) -> dict[str, float]:
    """Steps per second of each precision."""
    setting = load(data, preset)
    chosen = [
        setting.train.collate(indices) for indices, _ in zip(setting.train.epoch(0), range(batches), strict=False)
    ]
    candidates = {}
    for precision in PRECISIONS:
        model = copy.deepcopy(setting.model).train()
        loss = SingleProcess("cpu", precision).prepare(build_objective(model, objective))
        run = step(model, loss, torch.optim.Adam(model.parameters(), 1e-5, fused=True))
        candidates[precision] = lambda run=run: [run(batch) for batch in chosen]
    seconds = best_times(candidates, rounds, clock=time.process_time)
    return {precision: len(chosen) / seconds[precision] for precision in PRECISIONS}


def summary(record: dict) -> str:
    lines = ["| preset | objective | float32, steps/s | bfloat16, steps/s | ratio |", "|---|---|---|---|---|"]
    for preset, row in record["rows"].items():
        wide, half = row["32"], row["bf16"]
        lines.append(f"| {preset} | {row['objective']} | {wide:.2f} | {half:.2f} | {half / wide:.2f} |")
    described = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
    conditions = (
        f"One thread, {record['batches']} batches, best of {record['rounds']} rounds, {record['note']}; {described}."
    )
    return "\n".join([*lines, "", conditions, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_option(parser)
    parser.add_argument("--batches", type=int, default=8, help="batches per round (default 8)")
    parser.add_argument("--rounds", type=int, default=4, help="timed rounds, of which the best counts (default 4)")
    parser.add_argument("--output", type=Path, help="directory for precision.json and summary.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    for preset, objective in CASES.items():
        found = measure(preset, objective, arguments.data, arguments.batches, arguments.rounds)
        rows[preset] = {"objective": objective.name, **found}
        print(preset, rows[preset], flush=True)
    note = load(arguments.data).note
    record = {
        "machine": machine(),
        "batches": arguments.batches,
        "rounds": arguments.rounds,
        "note": note,
        "rows": rows,
    }
    print(summary(record))
    keep(arguments.output, "precision", record, summary(record))


if __name__ == "__main__":
    main()
