"""``python -m tests.faults``: tries cases of every kind and prints how many survived, with the seed of each failure."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.faults import calls, enumerated, files, kills
from tests.faults.sweep import HEADING, sweep

PARTS = {  # files and kills first: their children must load the compiled kernels themselves
    "files": (files, 250, "commands on damaged files"),
    "kills": (kills, 60, "training runs that are killed and resumed"),
    "calls": (calls, 30_000, "random calls of the public functions"),
    "cases": (enumerated, 10_000, "small cases against full enumeration"),
}


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition(": ")[2])
    for part, (_, number, help) in PARTS.items():
        parser.add_argument(f"--{part}", type=int, default=number, metavar="N", help=f"{help} (default: {number})")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case of each part (default: 0)")
    parser.add_argument("--workers", type=int, default=None, metavar="N", help="processes (default: one per core)")
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)
    results = []
    for part, (module, _, _) in PARTS.items():
        if number := getattr(arguments, part):
            began = time.monotonic()
            seeds = range(arguments.seed, arguments.seed + number)
            with tempfile.TemporaryDirectory() as folder:
                check = module.prepare(Path(folder))
                results.append(sweep(part, check, seeds, module.SECONDS, arguments.workers))
            print(f"{part}: {number} tried in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            for seed, failure in results[-1].failures.items():
                print(f"{part} failed with --seed {seed}: {failure}", flush=True)
    print("\n".join([HEADING, *(result.row() for result in results)]))
    return any(result.failures for result in results)


if __name__ == "__main__":
    sys.exit(main())
