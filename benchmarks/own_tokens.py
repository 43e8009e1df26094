"""Measures a training step on the decoder's own tokens: REINFORCE of its samples beside the exact loss of its rows.

    python benchmarks/own_tokens.py runs/table-1/seed-1/base --output results/own_tokens

The run directory is that of a trained model with a decoder, whose samples have realistic lengths. A step is forward,
backward, clipping and Adam, as in the trainer. Objectives take turns in one process on batches of the training set.
The best of several rounds counts for each batch, and the batches are summed. Times are processor times of one thread.
"""

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from multi30k import step
from timing import best_times, keep, machine

from bleugrad.lab.data.batches import BatchPlan
from bleugrad.lab.data.encoding import encode_split
from bleugrad.lab.data.preparation import prepare_split
from bleugrad.lab.training.objectives.config import CrossEntropyConfig, ExpectedConfig, ReinforceConfig
from bleugrad.lab.training.system import load

GREEDY = "exact, own tokens"
OBJECTIVES = {
    "CE": CrossEntropyConfig(),
    GREEDY: ExpectedConfig("exact", feeding="greedy"),
    "exact, own tokens, CE": ExpectedConfig("exact", feeding="greedy", cross_entropy_weight=0.1),
    "RF, 2 own samples": ReinforceConfig(feeding="sample", samples=2),
    "RF, 4 own samples": ReinforceConfig(feeding="sample", samples=4),
}


def measure(run: Path, batches: int, rounds: int) -> dict[str, Any]:
    """Milliseconds per step of each objective, with a learning rate of 0, so that all see the same model."""
    system = load(run, "cpu")
    model, data = system.model.train(), system.config.data
    source, target = system.vocabularies.source, system.vocabularies.target
    plan = BatchPlan(encode_split(prepare_split(data, "train"), source, target), size=data.batch_size)
    optimizer = torch.optim.Adam(model.parameters(), 0.0, fused=True)
    steps = {name: step(model, objective, optimizer) for name, objective in OBJECTIVES.items()}
    totals = dict.fromkeys(OBJECTIVES, 0.0)
    for indices in plan.epoch(1)[:batches]:
        batch = plan.collate(indices)
        calls = {name: partial(run_step, batch) for name, run_step in steps.items()}
        for name, seconds in best_times(calls, rounds, warmup=0, clock=time.process_time).items():
            totals[name] += seconds
    return {
        "machine": machine(),
        "corpus": data.corpus,
        "units": system.config.model.hidden,
        "vocabulary": len(target),
        "batch_size": data.batch_size,
        "batches": batches,
        "rounds": rounds,
        "milliseconds": {name: round(1000 * seconds / batches, 2) for name, seconds in totals.items()},
    }


def table(record: dict[str, Any]) -> str:
    times = record["milliseconds"]
    lines = [f"| objective | processor time per step, ms | time / CE | time / {GREEDY} |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {value:.1f} | {value / times['CE']:.2f} | {value / times[GREEDY]:.2f} |"
        for name, value in times.items()
    ]
    described = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
    return "\n".join(lines) + (
        f"\n\n{record['corpus']}, {record['units']} units, {record['vocabulary']} target tokens, {record['batches']} "
        f"batches of {record['batch_size']} sentences, one thread. Best of {record['rounds']} rounds; objectives take "
        f"turns. Measured on {described}.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run directory of a trained model, with checkpoints")
    parser.add_argument("--batches", type=int, default=6, help="number of training batches (default 6)")
    parser.add_argument("--rounds", type=int, default=4, help="rounds per batch (default 4)")
    parser.add_argument("--output", type=Path, help="directory for own_tokens.json and summary.md")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    record = measure(arguments.run, arguments.batches, arguments.rounds)
    print(table(record))
    keep(arguments.output, "own_tokens", record, table(record))


if __name__ == "__main__":
    main()
