"""Compares public implementations of related losses with bleugrad: their cost, and their error against enumeration.

Clone the repositories that you want to compare; the options below name them. Then pass the folders of the clones:

    git clone https://github.com/deeppavlov/expected_bleu
    python benchmarks/peers.py --authors expected_bleu
    python benchmarks/peers.py --authors expected_bleu --output results/peers   # also save results.json, summary.md

One file of each clone is executed. Methods whose folder is not given are left out. Without any folder, the exact loss
of bleugrad is compared with its own implementation of the bound. Losses of CTC models and of graphs have tables of
their own, if a folder with one is given.

Cost is the processor time of forward and backward pass from logits, as a multiple of ``bleugrad.ExpectedBLEULoss``: one
thread, one process, the losses taking turns, best of several rounds. Errors are measured in float64 on short sentences,
where all outputs can be enumerated: the largest error of the expected matches E[O_n], and for losses of all orders the
mean error of E[BLEU] when the matches are put into BLEU (orders 1 to 4, smoothing 1).
"""

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import torch
from peers_adapters import ORDERS, PEERS, Loss, describe, load
from peers_families import FAMILIES, SPECIAL, STEPS, VOCABULARY, Family
from timing import best_times, machine
from torch import Tensor

import bleugrad

BONUSES = (0.0, 2.0, 4.0)
"""Added to the logits of the labels of enumerated cases: from an untrained to a trained model."""
KINDS = ("distinct", "repeated")
TRIAL = (2, 8, 8)


def deviations(
    family: Family, losses: dict[str, Loss], cases: int, kind: str, seed: int
) -> Iterator[dict[str, Tensor]]:
    """Estimate minus truth of the matches of each order, and of BLEU if all orders count, for all losses, by case."""
    generator = torch.Generator().manual_seed(seed)
    columns = [n - 1 for n in family.orders]
    for bonus in BONUSES:
        for _ in range(cases):
            inputs = family.case(kind, bonus, generator)
            outputs = family.truth(*inputs)
            truth = torch.tensor([*outputs.mean(outputs.matches)[columns], outputs.mean(outputs.bleu(smoothing=1.0))])
            row = {}
            for name, loss in losses.items():
                if loss.matches is not None:
                    found = with_bleu(loss.matches(*inputs))
                    row[name] = found - truth[: len(found)]
            yield row


def with_bleu(matches: Tensor) -> Tensor:
    """BLEU is added to the matches of all orders; the length is that of the rows then."""
    if len(matches) < len(ORDERS):
        return matches
    totals = torch.tensor([STEPS - n + 1 for n in ORDERS])
    return torch.cat([matches, ((matches + 1) / (totals + 1)).log().mean().exp()[None]])


def measure_errors(family: Family, losses: dict[str, Loss], cases: int, seed: int) -> dict[str, dict[str, dict]]:
    errors: dict[str, dict[str, dict]] = {name: {} for name, loss in losses.items() if loss.matches is not None}
    for kind in KINDS:
        rows = list(deviations(family, losses, cases, kind, seed))
        for name, found in errors.items():
            difference = torch.stack([row[name] for row in rows])
            found[kind] = {
                "lowest": difference.amin(0).tolist(),
                "highest": difference.amax(0).tolist(),
                "mean_absolute": difference.abs().mean(0).tolist(),
            }
    return errors


def measure_times(
    family: Family, losses: dict[str, Loss], shape: list[int], rounds: int, seed: int
) -> dict[str, float]:
    """Milliseconds of processor time of forward and backward pass."""
    *emitted, labels = family.draw(*shape, torch.Generator().manual_seed(seed))
    for tensor in emitted:
        tensor.requires_grad_()

    def run(loss: Loss) -> None:
        for tensor in emitted:
            tensor.grad = None
        loss.step(*emitted, labels).backward()

    calls = {name: partial(run, loss) for name, loss in losses.items()}
    times = best_times(calls, rounds, steady=True, clock=time.process_time)
    found = {name: 1e3 * seconds for name, seconds in times.items()}
    print(family.title, shape, ", ".join(f"{name} {value:.1f} ms" for name, value in found.items()), flush=True)
    return found


def collect(name: str, folders: dict[str, Path]) -> dict[str, Loss]:
    """The losses of a family: those of bleugrad, then those of the folders."""
    trial = FAMILIES[name].draw(*TRIAL, torch.Generator().manual_seed(0))
    public = {option: folder for option, folder in folders.items() if PEERS[option].family == name}
    return FAMILIES[name].losses | {PEERS[option].name: load(option, public[option], trial) for option in public}


def measure(family: Family, losses: dict[str, Loss], shapes: list[list[int]] | None, rounds: int, cases: int) -> dict:
    """Times and errors of the losses of a family, each with seed 0."""
    return {
        "times": [
            {"shape": shape, "milliseconds": measure_times(family, losses, shape, rounds, seed=0)}
            for shape in shapes or family.shapes
        ],
        "errors": measure_errors(family, losses, cases, seed=0),
    }


def summary(result: dict) -> str:
    """The tables of cost and of errors in Markdown with their conditions, as the documentation shows them."""
    tables = [
        part for name, found in result["families"].items() for part in family_tables(result["peers"], name, found)
    ]
    units = "; ".join(f"{unit(found)} for {FAMILIES[name].title}" for name, found in result["families"].items())
    conditions = (
        "Costs are processor times of forward and backward pass for B, T, V, as a multiple of the first row of a table "
        f"({units}), best of {result['rounds']} rounds, float32, one thread of "
        f"{result['machine']['processor']} at a load average of {result['load']:.0f}, "
        f"torch {result['machine']['torch']}. References have T tokens, those of CTC frames and graphs T / 2. "
        f"Errors are those of {len(BONUSES) * result['cases']} random cases of each kind with T = {STEPS} and "
        f"V = {VOCABULARY}, seed {result['seed']}, where enumeration gives the truth: the largest error of E[O_n] in "
        "matches, and the mean error of E[BLEU] when BLEU is made of these matches, on the scale of 0 to 100."
    )
    files = [
        f"`{peer['file']}` of {peer['repository']} (blob {peer['blob'][:10]})" for peer in result["peers"].values()
    ]
    paragraphs = [*tables, conditions]
    paragraphs += [f"Files read: {', '.join(files)}.{result['note']}"] * bool(files)
    return "\n\n".join(paragraphs) + "\n"


def unit(found: dict) -> str:
    """The times of the loss that costs 1."""
    return ", ".join(f"{next(iter(row['milliseconds'].values())):.0f} ms" for row in found["times"])


def family_tables(peers: dict, name: str, found: dict) -> list[str]:
    """Cost and errors of the losses of a family."""
    family, times = FAMILIES[name], [row["milliseconds"] for row in found["times"]]
    base, *_ = names = list(times[0])
    costs = {loss: [f"{row[loss] / row[base]:.2f}" for row in times] for loss in names}
    shapes = [f"B, T, V = {', '.join(map(str, row['shape']))}" for row in found["times"]]
    judged = ("matches", "BLEU") if family.orders == ORDERS else ("matches of bigrams",)
    quantities = [f"{quantity}, {kind} words" for quantity in judged for kind in KINDS]
    errors = {loss: error_cells(found["errors"].get(loss), peers.get(loss), family) for loss in names}
    heads = [f"{quantity} of the loss, {family.title}" for quantity in ("cost", "error")]
    return [table([heads[0], *shapes], costs), table([heads[1], *quantities], errors)]


def table(head: list[str], rows: dict[str, list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([name, *cells] for name, cells in rows.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def error_cells(found: dict | None, peer: dict | None, family: Family) -> list[str]:
    """Errors of the matches of the orders that a loss counts, and of BLEU where all orders count."""
    missing, whole = ["no estimate"] * len(KINDS), family.orders == ORDERS
    if found is None:
        return missing * (1 + whole)
    columns = [list(family.orders).index(n) for n in (peer["orders"] if peer else family.orders)]
    matches = [f"{largest(found[kind], columns):.2g}" for kind in KINDS]
    if not whole:
        return matches
    bleu = [f"{100 * found[kind]['mean_absolute'][-1]:.2f}" for kind in KINDS]
    return [*matches, *(bleu if len(columns) == len(ORDERS) else missing)]


def largest(found: dict[str, list[float]], columns: Iterable[int]) -> float:
    """Largest error of the matches of any of the columns."""
    return max(abs(found[side][column]) for side in ("lowest", "highest") for column in columns)


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
    least = (1, max(ORDERS), SPECIAL + 1)
    if any(size < limit for shape in arguments.shape or [] for size, limit in zip(shape, least, strict=True)):
        parser.error(f"--shape needs B, T and V of at least {least[0]}, {least[1]} and {least[2]}")
    torch.set_num_threads(1)
    folders = {option: folder for option in PEERS if (folder := getattr(arguments, option[2:])) is not None}
    measured = {"rows", *(PEERS[option].family for option in folders)}
    losses = {name: collect(name, folders) for name in FAMILIES if name in measured}
    result = {
        "machine": {**machine(), "threads": "1", "bleugrad": bleugrad.__version__},
        "peers": {PEERS[option].name: describe(option, folder) for option, folder in folders.items()},
        "note": f" {arguments.note}".rstrip(),
        "load": os.getloadavg()[1],  # of five minutes
        "rounds": arguments.rounds,
        "cases": arguments.cases,
        "seed": 0,
        "families": {
            name: measure(FAMILIES[name], found, arguments.shape, arguments.rounds, arguments.cases)
            for name, found in losses.items()
        },
    }
    print("\n" + summary(result))
    if arguments.output is not None:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (arguments.output / "summary.md").write_text(summary(result), encoding="utf-8")


if __name__ == "__main__":
    main()
