"""``python -m tests.faults``: tries cases of every kind and prints how many survived, with the seed of each failure."""

import argparse
import sys
import tempfile
from pathlib import Path

import torch

from tests.faults import calls, enumerated
from tests.faults.files import Files
from tests.faults.kills import Kills
from tests.faults.sweep import HEADING, sweep

PARTS = {
    "calls": (30_000, "random calls of the public functions"),
    "cases": (10_000, "small cases against full enumeration"),
    "files": (250, "commands on damaged files"),
    "kills": (60, "training runs that are killed and resumed"),
}


def run_part(part, seeds, folder):
    if part == "files":
        return sweep(part, Files(folder).check, seeds, 600)
    if part == "kills":
        return sweep(part, Kills(folder).check, seeds, 1200)
    return sweep(part, {"calls": calls, "cases": enumerated}[part].check, seeds)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition(": ")[2])
    for part, (number, help) in PARTS.items():
        parser.add_argument(f"--{part}", type=int, default=number, metavar="N", help=f"{help} (default: {number})")
    parser.add_argument("--seed", type=int, default=0, help="of the first case of each part (default: 0)")
    parser.add_argument("--skip", type=int, nargs="*", default=[], metavar="SEED", help="seeds to leave out")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    # files first: its children must load the compiled kernels anew
    for part in ("files", "kills", "calls", "cases"):
        number = getattr(arguments, part)
        if number:
            with tempfile.TemporaryDirectory() as folder:
                seeds = [arguments.seed + case for case in range(number) if arguments.seed + case not in arguments.skip]
                results.append(run_part(part, seeds, Path(folder)))
            print(f"{part}: {results[-1].tried} tried", file=sys.stderr, flush=True)
    for result in results:
        for seed, failure in result.failures.items():
            print(f"{result.part} failed with --seed {seed}: {failure}")
    print("\n".join([HEADING, *(result.row() for result in results)]))
    return any(result.failures for result in results)


if __name__ == "__main__":
    sys.exit(main())
