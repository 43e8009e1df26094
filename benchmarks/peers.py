"""Compares public implementations of related losses with bleugrad: their cost, and their error against enumeration.

Clone the repositories that you want to compare; the options below name them. Then pass the folders of the clones:

    git clone https://github.com/deeppavlov/expected_bleu
    python benchmarks/peers.py --authors expected_bleu
    python benchmarks/peers.py --authors expected_bleu --output results/peers   # also save results.json, summary.md

One file of each clone is executed. Methods whose folder is not given are left out. Without any folder, the exact loss
of bleugrad is compared with its own implementation of the bound.

Cost is the processor time of forward and backward pass from logits, as a multiple of ``bleugrad.ExpectedBLEULoss``: one
thread, one process, the losses taking turns, best of several rounds. Errors are measured in float64 on short sentences,
where all token sequences can be enumerated: the largest error of the expected matches E[O_n], and the mean error of
E[BLEU] when the matches are put into BLEU (orders 1 to 4, smoothing 1).
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import torch
from peers_adapters import ORDERS, PEERS, Loss, describe, load
from timing import best_times, machine
from torch import Tensor

import bleugrad

sys.path.append(str(Path(__file__).parents[1]))
from tests.oracles.enumeration import enumerate_statistics

SHAPES = [[16, 30, 8000], [16, 30, 32000]]
STEPS, VOCABULARY = 5, 6
BONUSES = (0.0, 2.0, 4.0)
"""Added to the logits of the labels of enumerated cases: from an untrained to a trained model."""
KINDS = ("distinct", "repeated")


def ours(method: str) -> Loss:
    def matches(logits: Tensor, labels: Tensor) -> Tensor:
        return bleugrad.expected_bleu(logits, labels, method=method, interval=False).matches.sum(0)

    return Loss(bleugrad.ExpectedBLEULoss(method=method), matches)


def draw_case(kind: str, bonus: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Logits (1, T, V) in float64 and a reference (1, T): words that all differ, or two words that repeat."""
    distinct = torch.randperm(VOCABULARY, generator=generator)[:STEPS]
    labels = distinct if kind == "distinct" else distinct[torch.randint(2, (STEPS,), generator=generator)]
    logits = torch.randn(STEPS, VOCABULARY, dtype=torch.float64, generator=generator)
    logits[torch.arange(STEPS), labels] += bonus
    return logits[None], labels[None]


def deviations(losses: dict[str, Loss], cases: int, kind: str, seed: int) -> Iterator[dict[str, Tensor]]:
    """Estimate minus truth of the matches of each order and of BLEU, (N + 1,), for all losses, case by case."""
    generator = torch.Generator().manual_seed(seed)
    totals = torch.tensor([STEPS - n + 1 for n in ORDERS])
    for bonus in BONUSES:
        for _ in range(cases):
            logits, labels = draw_case(kind, bonus, generator)
            table = enumerate_statistics(logits[0].softmax(1).numpy(), [labels[0].tolist()], max_order=len(ORDERS))
            truth = torch.tensor([*table.mean(table.matches), table.mean(table.bleu(smoothing=1.0))])
            row = {}
            for name, loss in losses.items():
                if loss.matches is not None:
                    found = loss.matches(logits, labels)
                    bleu = ((found + 1) / (totals + 1)).log().mean().exp()
                    row[name] = torch.cat([found, bleu[None]]) - truth
            yield row


def measure_errors(losses: dict[str, Loss], cases: int, seed: int) -> dict[str, dict[str, dict]]:
    errors: dict[str, dict[str, dict]] = {name: {} for name, loss in losses.items() if loss.matches is not None}
    for kind in KINDS:
        rows = list(deviations(losses, cases, kind, seed))
        for name, found in errors.items():
            difference = torch.stack([row[name] for row in rows])
            found[kind] = {
                "lowest": difference.amin(0).tolist(),
                "highest": difference.amax(0).tolist(),
                "mean_absolute": difference.abs().mean(0).tolist(),
            }
    return errors


def measure_times(losses: dict[str, Loss], shape: list[int], rounds: int, seed: int) -> dict[str, float]:
    """Milliseconds of processor time of forward and backward pass."""
    batch, steps, vocabulary = shape
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(shape, generator=generator).requires_grad_()
    labels = torch.randint(vocabulary, (batch, steps), generator=generator)

    def run(loss: Loss) -> None:
        logits.grad = None
        loss.step(logits, labels).backward()

    calls = {name: partial(run, loss) for name, loss in losses.items()}
    times = best_times(calls, rounds, steady=True, clock=time.process_time)
    found = {name: 1e3 * seconds for name, seconds in times.items()}
    print(shape, ", ".join(f"{name} {value:.1f} ms" for name, value in found.items()), flush=True)
    return found


def summary(result: dict) -> str:
    """The tables of cost and of errors in Markdown with their conditions, as the documentation shows them."""
    shapes = [", ".join(map(str, row["shape"])) for row in result["times"]]
    names = list(result["times"][0]["milliseconds"])
    base = names[0]
    costs = {
        name: [f"{row['milliseconds'][name] / row['milliseconds'][base]:.2f}" for row in result["times"]]
        for name in names
    }
    errors = {name: error_cells(result, name) for name in names}
    quantities = [f"{quantity}, {kind} words" for quantity in ("matches", "BLEU") for kind in KINDS]
    milliseconds = ", ".join(f"{row['milliseconds'][base]:.0f} ms" for row in result["times"])
    conditions = (
        "Costs are processor times of forward and backward pass for B, T, V, as a multiple of the first row "
        f"({milliseconds}), best of {result['rounds']} rounds, float32, one thread of "
        f"{result['machine']['processor']} at a load average of {result['load']:.0f}, "
        f"torch {result['machine']['torch']}. Errors are those of {len(BONUSES) * result['cases']} random cases of "
        f"each kind with T = {STEPS} and V = {VOCABULARY}, seed {result['seed']}, where enumeration gives the truth: "
        "the largest error of E[O_n] in matches, and the mean error of E[BLEU] when BLEU is made of these matches, on "
        "the scale of 0 to 100."
    )
    files = [
        f"`{peer['file']}` of {peer['repository']} (blob {peer['blob'][:10]})" for peer in result["peers"].values()
    ]
    cost = table(["cost of the loss", *(f"B, T, V = {shape}" for shape in shapes)], costs)
    paragraphs = [cost, table(["error of the loss", *quantities], errors), conditions]
    paragraphs += [f"Files read: {', '.join(files)}.{result['note']}"] * bool(files)
    return "\n\n".join(paragraphs) + "\n"


def table(head: list[str], rows: dict[str, list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([name, *cells] for name, cells in rows.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def error_cells(result: dict, name: str) -> list[str]:
    """Errors of the matches of the orders that a loss counts, and of BLEU if it counts all."""
    found, orders = result["errors"].get(name), result["peers"].get(name, {}).get("orders", ORDERS)
    missing = ["no estimate"] * len(KINDS)
    if found is None:
        return 2 * missing
    matches = [f"{largest(found[kind], orders):.2g}" for kind in KINDS]
    bleu = [f"{100 * found[kind]['mean_absolute'][-1]:.2f}" for kind in KINDS]
    return [*matches, *(bleu if list(orders) == list(ORDERS) else missing)]


def largest(found: dict[str, list[float]], orders: Iterable[int]) -> float:
    """Largest error of the matches of any of the orders."""
    return max(abs(found[side][n - 1]) for side in ("lowest", "highest") for n in orders)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, peer in PEERS.items():
        described = f"{peer.name}: clone of https://github.com/{peer.repository} (its {peer.file} is executed)"
        parser.add_argument(option, type=Path, metavar="DIR", help=described)
    parser.add_argument(
        "--shape", type=int, nargs=3, action="append", metavar=("B", "T", "V"), help="timed shape; may be repeated"
    )
    parser.add_argument("--rounds", type=int, default=10, help="timed rounds; the best one counts (default 10)")
    parser.add_argument(
        "--cases",
        type=int,
        default=50,
        help="enumerated cases of each kind and of each of three model qualities (default 50)",
    )
    parser.add_argument("--note", default="", help="a sentence for the summary about the files read")
    parser.add_argument("--output", type=Path, help="directory for results.json and summary.md")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.cases) < 1:
        parser.error("--rounds and --cases must be at least 1")
    if any(min(batch, vocabulary) < 1 or steps < max(ORDERS) for batch, steps, vocabulary in arguments.shape or []):
        parser.error(f"--shape needs B and V of at least 1, and T of at least {max(ORDERS)}")
    torch.set_num_threads(1)
    folders = {option: folder for option in PEERS if (folder := getattr(arguments, option[2:])) is not None}
    losses = {"bleugrad, exact": ours("exact"), "bleugrad, bound": ours("bound")}
    losses |= {PEERS[option].name: load(option, folder) for option, folder in folders.items()}
    result = {
        "machine": {**machine(), "threads": "1", "bleugrad": bleugrad.__version__},
        "peers": {PEERS[option].name: describe(option, folder) for option, folder in folders.items()},
        "note": f" {arguments.note}".rstrip(),
        "load": os.getloadavg()[1],  # of five minutes
        "rounds": arguments.rounds,
        "cases": arguments.cases,
        "seed": 0,
        "times": [
            {"shape": shape, "milliseconds": measure_times(losses, shape, arguments.rounds, seed=0)}
            for shape in arguments.shape or SHAPES
        ],
        "errors": measure_errors(losses, arguments.cases, seed=0),
    }
    print("\n" + summary(result))
    if arguments.output is not None:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (arguments.output / "summary.md").write_text(summary(result), encoding="utf-8")


if __name__ == "__main__":
    main()
