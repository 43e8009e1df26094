"""The cost of the loss in two checkouts, in one table: milliseconds of each, and their ratio.

    python benchmarks/versions.py OLD NEW                          # two checkouts of this repository
    python benchmarks/versions.py OLD NEW --repeats 5 --output results/versions

Each measurement is a child process of `benchmarks/loss.py` of one checkout. The checkouts take turns, and the best of
all turns counts, so that a busy machine slows both alike.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from loss import ALLOCATORS, PROJECTIONS, SHAPES, SMALL_SHAPES
from timing import machine

CASES = [("plain", shape) for shape in [*SHAPES, *SMALL_SHAPES]] + [("linear", shape) for shape in PROJECTIONS]


def measure(checkout: Path, family: str, shape: tuple[int, ...], threads: int, rounds: int) -> dict[str, float]:
    """Milliseconds of each candidate, in a process of its own that keeps its memory."""
    command = [sys.executable, str(checkout / "benchmarks" / "loss.py"), "--times-of", family]
    variables = {**os.environ, **ALLOCATORS["keeping"], "PYTHONPATH": str(checkout / "src")}
    arguments = [*command, *map(str, (*shape, threads, rounds))]
    done = subprocess.run(arguments, env=variables, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(checkouts: list[Path], repeats: int, rounds: int) -> list[dict[str, object]]:
    """One row per case, number of threads and candidate that both checkouts have."""
    rows: list[dict[str, object]] = []
    for (family, shape), threads in itertools.product(CASES, (1, 2)):
        best: list[dict[str, float]] = [{}, {}]
        for _ in range(repeats):
            for known, checkout in zip(best, checkouts, strict=True):
                for name, value in measure(checkout, family, shape, threads, rounds).items():
                    known[name] = min(value, known.get(name, value))
        for name in best[0]:
            old, new = best[0][name], best[1].get(name)
            if new is not None:
                row = {"shape": list(shape), "threads": threads, "loss": name, "old": old, "new": new}
                rows.append({**row, "ratio": round(new / old, 3)})
                print("{shape} {threads} {loss}: {old} ms, {new} ms, {ratio}".format(**rows[-1]), flush=True)
    return rows


def table(rows: list[dict[str, object]]) -> str:
    """Markdown, with the conditions below it."""
    lines = ["| (B, T, V) | threads | loss | old, ms | new, ms | new / old |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        shape = "({}, {}, {})".format(*row["shape"])  # type: ignore[misc]
        lines.append("| {} | {threads} | {loss} | {old} | {new} | {ratio} |".format(shape, **row))
    conditions = ", ".join(machine().values())
    return "\n".join(
        [*lines, "", f"Forward and backward, float32, C kernels, memory kept between steps; {conditions}.", ""]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--repeats", type=int, default=3, help="turns of each checkout per case")
    parser.add_argument("--rounds", type=int, default=5, help="timed steps per turn, of which the best counts")
    parser.add_argument("--output", type=Path, help="folder for versions.json and versions.md")
    arguments = parser.parse_args()
    rows = compare([arguments.old.resolve(), arguments.new.resolve()], arguments.repeats, arguments.rounds)
    print(table(rows))
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "versions.json").write_text(
            json.dumps({"machine": machine(), "rows": rows}, indent=2) + "\n"
        )
        (arguments.output / "versions.md").write_text(table(rows))


if __name__ == "__main__":
    main()
