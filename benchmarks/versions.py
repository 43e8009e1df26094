"""The cost of the loss in two checkouts, in one table: milliseconds of each, and their ratio.

    python benchmarks/versions.py OLD NEW                          # two checkouts of this repository
    python benchmarks/versions.py OLD NEW --repeats 5 --output results/versions

Each measurement is a child process of `benchmarks/loss.py` of one checkout. The checkouts take turns, and the best of
all turns counts, so that a busy machine slows both alike. With `--output`, rerun the command to resume: shapes and
numbers of threads that are in the folder already are not measured again.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from loss import ALLOCATORS, PROJECTIONS, SHAPES, SMALL_SHAPES
from timing import keep, machine

CASES = [("plain", shape) for shape in [*SHAPES, *SMALL_SHAPES]] + [("linear", shape) for shape in PROJECTIONS]


def measure(checkout: Path, family: str, shape: tuple[int, ...], threads: int, rounds: int) -> dict[str, float]:
    """Milliseconds of each candidate, in a process of its own that keeps its memory."""
    command = [sys.executable, str(checkout / "benchmarks" / "loss.py"), "--times-of", family]
    variables = {**os.environ, **ALLOCATORS["keeping"], "PYTHONPATH": str(checkout / "src")}
    arguments = [*command, *map(str, (*shape, threads, rounds))]
    done = subprocess.run(arguments, env=variables, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(checkouts: list[Path], repeats: int, rounds: int, output: Path | None) -> list[dict[str, object]]:
    """One row per case, number of threads and candidate that both checkouts have."""
    saved = output / "versions.json" if output else None
    rows: list[dict[str, object]] = json.loads(saved.read_text())["rows"] if saved and saved.exists() else []
    for (family, shape), threads in itertools.product(CASES, (1, 2)):
        if any(row["shape"] == list(shape) and row["threads"] == threads for row in rows):
            continue
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
        keep(output, "versions", {"machine": machine(), "commits": commits(checkouts), "rows": rows}, table(rows))
    return rows


def commits(checkouts: list[Path]) -> list[str]:
    """The commit of each checkout."""
    commands = [["git", "-C", str(checkout), "rev-parse", "--short=10", "HEAD"] for checkout in checkouts]
    return [subprocess.run(one, capture_output=True, text=True, check=True).stdout.strip() for one in commands]


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
    parser.add_argument("--output", type=Path, help="folder for versions.json and summary.md")
    arguments = parser.parse_args()
    checkouts = [arguments.old.resolve(), arguments.new.resolve()]
    print(table(compare(checkouts, arguments.repeats, arguments.rounds, arguments.output)))


if __name__ == "__main__":
    main()
