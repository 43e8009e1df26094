"""Measures training speed of the multi30k preset per objective, and the time of its matrix products alone.

    python benchmarks/training.py --data ../shared/data
    python benchmarks/training.py --output results/training

A step is forward, backward, clipping and Adam, as in the trainer. "bare" computes only the matrix products of the
model, forward and backward, into preallocated memory: one product for all time steps where possible (embeddings,
attention keys, output projection, gradients of weights) and one per time step in the recurrences, without padded rows.
Candidates take turns in one process. The best of several rounds counts for each batch, and the batches are summed.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from multi30k import Setting, add_data_option, load, step, train_shortly
from timing import best_times, keep, machine
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from bleugrad.lab.data.batches import Batch
from bleugrad.lab.training.objectives.config import CrossEntropyConfig, ExpectedConfig, ReinforceConfig

OBJECTIVES = {
    "ce": CrossEntropyConfig(),
    "bound": ExpectedConfig("bound"),
    "exact": ExpectedConfig("exact"),
    "reinforce": ReinforceConfig(),
    "reinforce, own tokens": ReinforceConfig(feeding="sample"),
}
Call = Callable[[], None]


def products(rows: list[int], inside: int, outside: int) -> Call:
    """Matrix products of a linear layer with ``rows[t]`` rows at step t, and of its gradients.

    The gradient of the weights is one product over all steps.
    """
    weight, gradient = torch.randn(outside, inside), torch.empty(outside, inside)
    read, written = torch.randn(sum(rows), inside), torch.randn(sum(rows), outside)
    result, passed = torch.empty_like(written), torch.empty_like(read)
    parts = [tuple(each.split(rows)) for each in (read, written, result, passed)]

    def run() -> None:
        for before, after, out, back in zip(*parts, strict=True):
            torch.mm(before, weight.t(), out=out)
            torch.mm(after, weight, out=back)
        torch.mm(written.t(), read, out=gradient)

    return run


def attention_products(rows: int, source: int, steps: int, hidden: int) -> Call:
    """Scores and contexts per step with gradients of queries and weights; gradients of keys and values at once."""
    keys, values = torch.randn(rows, source, hidden), torch.randn(rows, source, hidden)
    queries, weights = torch.randn(steps, rows, 1, hidden), torch.randn(steps, rows, 1, source)
    scores, contexts = torch.empty_like(weights), torch.empty_like(queries)
    joined_queries, joined_weights = torch.randn(rows, steps, hidden), torch.randn(rows, source, steps)
    gradient = torch.empty_like(keys)

    def run() -> None:
        for t in range(steps):
            for _ in range(2):  # forward, and backward with queries and weights exchanged
                torch.bmm(queries[t], keys.transpose(1, 2), out=scores[t])
                torch.bmm(weights[t], values, out=contexts[t])
        for _ in range(2):
            torch.bmm(joined_weights, joined_queries, out=gradient)

    return run


def bare(setting: Setting, batch: Batch) -> Call:
    """All matrix products of a cross-entropy step on a batch (one encoder and one decoder layer, as in the preset)."""
    width, hidden, size = setting.config.model.embedding, setting.config.model.hidden, setting.model.target_size
    rows, steps = batch.labels.shape
    source = batch.source.shape[1]
    packed = pack_padded_sequence(batch.source, batch.source_lengths, True, False).batch_sizes.tolist()
    calls = [
        *(products([sum(packed)], width, 4 * hidden) for _ in range(2)),
        *(products(packed, hidden, 4 * hidden) for _ in range(2)),
        *(products([rows * source], 2 * hidden, hidden) for _ in range(2)),
        products([rows], 2 * hidden, hidden),
        products([rows * steps], width, 4 * hidden),
        products([rows] * steps, 2 * hidden, 4 * hidden),
        attention_products(rows, source, steps, hidden),
        products([rows] * steps, hidden, hidden),
        products([rows * steps], hidden, size),
    ]

    def run() -> None:
        for call in calls:
            call()

    return run


def measure(setting: Setting, batches: list[Batch], threads: int, rounds: int) -> dict[str, object]:
    torch.set_num_threads(threads)
    setting.model.train()
    totals: dict[str, float] = {}
    for batch in batches:
        # with a learning rate of 0 every objective sees the same model, and the time of Adam is included
        optimizer = torch.optim.Adam(setting.model.parameters(), 0.0, fused=True)
        candidates: dict[str, Call] = {"bare": bare(setting, batch)}
        for name, objective in OBJECTIVES.items():
            run = step(setting.model, objective, optimizer, setting.config.optimizer.clip)
            candidates[name] = lambda run=run, batch=batch: run(batch)  # type: ignore[misc]
        for name, seconds in best_times(candidates, rounds, warmup=0, steady=True).items():
            totals[name] = totals.get(name, 0.0) + seconds
    tokens = sum(batch.tokens for batch in batches)
    milliseconds = {name: round(1000 * seconds / len(batches), 2) for name, seconds in totals.items()}
    speed = {name: round(tokens / seconds) for name, seconds in totals.items() if name != "bare"}
    row = {"threads": threads, "milliseconds": milliseconds, "target_tokens_a_second": speed}
    print(table([row]), flush=True)
    return row


def table(rows: list[dict]) -> str:
    lines = [
        "| threads | objective | time per step, ms | target tokens per second | time / ce | time / bare products |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = row["milliseconds"]
        for name, value in times.items():
            speed = row["target_tokens_a_second"].get(name)
            ratios = f"{value / times['ce']:.2f} | {value / times['bare']:.2f}"
            shown = "" if speed is None else f"{speed:,}"
            lines.append(f"| {row['threads']} | {name} | {value:.1f} | {shown} | {ratios} |")
    return "\n".join(lines)


def summary(record: dict) -> str:
    described = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
    return (
        f"{table(record['times'])}\n\n{record['corpus']}, {record['batches']} batches of 64 sentences, "
        f"{record['shape']}. Best of {record['rounds']} rounds; candidates take turns. Measured on {described}.\n"
    )


def shape(setting: Setting, batches: list[Batch]) -> str:
    """Description of lengths and vocabularies."""

    def mean(tensors: list[Tensor]) -> float:
        return sum(tensor.shape[1] for tensor in tensors) / len(tensors)

    lengths = (
        f"{mean([b.source for b in batches]):.1f} and {mean([b.labels for b in batches]):.1f} tokens long on average"
    )
    return f"source and target {lengths}, vocabularies of {setting.model.source_size} and {setting.model.target_size}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_option(parser)
    parser.add_argument("--rounds", type=int, default=5, help="rounds per batch (default 5)")
    parser.add_argument("--batches", type=int, default=6, help="number of training batches (default 6)")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads to measure (default 1 2)"
    )
    parser.add_argument(
        "--train-steps", type=int, default=100, help="steps of cross-entropy before the measurement (default 100)"
    )
    parser.add_argument("--output", type=Path, help="directory for training.json and summary.md")
    arguments = parser.parse_args()

    setting = load(arguments.data)
    train_shortly(setting, arguments.train_steps)
    batches = [setting.train.collate(indices) for indices in setting.train.epoch(1)[: arguments.batches]]
    print(shape(setting, batches))
    times = [measure(setting, batches, threads, arguments.rounds) for threads in arguments.threads]
    record = {
        "machine": machine(),
        "corpus": setting.note,
        "rounds": arguments.rounds,
        "batches": len(batches),
        "shape": shape(setting, batches),
        "times": times,
    }
    keep(arguments.output, "training", record, summary(record))


if __name__ == "__main__":
    main()
