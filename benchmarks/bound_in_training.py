"""How far the paper's bound is from the exact expectation, for models that were trained on them.

    python benchmarks/bound_in_training.py runs/paper-builtin --output results/bound_in_training

The run directory is that of ``bleugrad reproduce`` and must hold the checkpoints of its stages. Each model is fed the
references of the validation set, as in training. The bound and the exact expected matches of its rows are compared for
each sentence and order. Sentences whose reference repeats a token are counted apart: there the bound may exceed the
expectation. EOS is a token of the reference, as in the paper's objective.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from timing import keep
from torch import Tensor

import bleugrad
from bleugrad.lab.data.batches import BatchPlan
from bleugrad.lab.data.encoding import encode_split
from bleugrad.lab.data.preparation import prepare_split
from bleugrad.lab.runs.files import read_json
from bleugrad.lab.training.system import load

ORDERS = 4
TOLERANCE = 1e-9


def matches(run: Path) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """By batch: the bound and the exact matches (B, N) in float64, and whether the reference repeats a token (B,)."""
    system = load(run, "cpu")
    source, target = system.vocabularies.source, system.vocabularies.target
    plan = BatchPlan(encode_split(prepare_split(system.config.data, "valid"), source, target), size=64)
    for indices in plan.ordered(64):
        batch = plan.collate(indices)
        with torch.no_grad():
            logits = system.model(batch.source, batch.source_lengths, batch.inputs()).double()
        mask = batch.labels != -100
        bound, exact = (
            bleugrad.expected_bleu(logits, batch.labels, mask=mask, method=method, interval=False).matches
            for method in ("bound", "exact")
        )
        tokens = [row[valid].tolist() for row, valid in zip(batch.labels, mask, strict=True)]
        yield bound, exact, torch.tensor([len(set(row)) < len(row) for row in tokens])


def compared(run: Path) -> list[dict[str, Any]]:
    """One row for references that repeat a token, and one for the others."""
    bound, exact, repeats = (torch.cat(parts) for parts in zip(*matches(run), strict=True))
    rows = []
    for name, chosen in (("yes", repeats), ("no", ~repeats)):
        differences = (bound - exact)[chosen]
        rows.append(
            {
                "repeats": name,
                "sentences": int(chosen.sum()),
                "above": (differences > TOLERANCE).any(1).double().mean().item(),
                "excess": [(differences[:, n].sum() / exact[chosen, n].sum()).item() for n in range(ORDERS)],
                "largest": (differences / exact[chosen].clamp(min=1e-12)).max().item(),
            }
        )
    return rows


def table(record: dict[str, Any]) -> str:
    header = [
        "model",
        "token repeated",
        "sentences",
        "bound above exact",
        "bound / exact - 1, orders 1 to 4",
        "largest",
    ]
    lines = [header, ["---"] * len(header)]
    for row in record["rows"]:
        excess = ", ".join(f"{100 * one:+.2f}" for one in row["excess"])
        share, largest = f"{100 * row['above']:.0f} %", f"{100 * row['largest']:+.1f} %"
        lines.append([row["title"], row["repeats"], str(row["sentences"]), share, f"{excess} %", largest])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    conditions = (
        f"Validation set of {record['corpus']}, seed {record['seed']}, decoder fed the reference. A sentence is above "
        "if the bound of any order exceeds the exact expected matches. The fifth column compares sums over all "
        "sentences for orders 1 to 4, the last one single sentences and orders."
    )
    return f"{text}\n\n{conditions}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run directory of bleugrad reproduce, with checkpoints")
    parser.add_argument(
        "--labels", nargs="+", default=["base", "ce", "bound-sentence", "exact"], help="models to compare"
    )
    parser.add_argument("--output", type=Path, help="directory for bound_in_training.json and summary.md")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    summary = read_json(arguments.run / "summary.json")
    rows = []
    for label in arguments.labels:
        for row in compared(arguments.run / summary["runs"][label][0]["directory"]):
            rows.append({"label": label, "title": summary["titles"][label], **row})
    record = {"corpus": summary["corpus"], "seed": summary["seeds"][0], "rows": rows}
    print(table(record))
    keep(arguments.output, "bound_in_training", record, table(record))


if __name__ == "__main__":
    main()
