"""What the loss costs beside cross-entropy: time, memory and growth.

    python benchmarks/loss.py                     # the tables, some minutes
    python benchmarks/loss.py --growth            # also time against V, T and B, as a figure
    python benchmarks/loss.py --output results/loss

Times are ratios in one process, the candidates taking turns, best of several rounds; a turn is an untimed step and a
timed one, as in a training loop that takes the same step over and over. The C library may give large tensors back to
the system after each step and fetch fresh pages for the next, which costs cross-entropy most: times are taken as it
comes, and in a process that is told to keep its memory. Memory is the growth of the resident set's peak in a child
process of its own for each candidate.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from timing import best_times, machine
from torch import Tensor

import bleugrad

SHAPES = [(32, 25, 8000), (64, 30, 32000), (16, 100, 32000), (8, 512, 50000)]
SMALL_SHAPES = [(16, 25, 2000), (1, 4096, 1000)]
"""Shapes whose vocabulary is small beside the n-grams, where the loss costs most beside cross-entropy."""
PROJECTIONS = [(8, 64, 32000), (8, 64, 128000)]
WIDTH = 512
CHUNK_ROWS = 64  # as many as the fused loss takes here; the heuristic of linear_cross_entropy takes 2 at V = 128000
SMOOTHING = 0.1
"""Label smoothing of the cross-entropy."""
MEGABYTE = 2**20
ALLOCATORS = {"default": {}, "keeping": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**36)}}
"""Settings of the C library (glibc): its own, and never giving memory back to the system."""
RETURNED = {"default": "as it comes", "keeping": "kept"}


def step(loss: Callable[[], Tensor], *leaves: Tensor) -> Callable[[], None]:
    """Forward and backward from scratch."""

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        loss().backward()

    return run


def plain_candidates(
    batch: int, steps: int, vocabulary: int, dtype: torch.dtype = torch.float32
) -> dict[str, Callable[[], None]]:
    """Labels are words of several tokens with EOS 0 for the recommended loss, and tokens for the others."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(batch, steps, vocabulary, generator=generator).to(dtype).requires_grad_()
    labels = torch.randint(1, vocabulary, (batch, steps), generator=generator)  # 0 is EOS
    starts = torch.rand(vocabulary, generator=generator) < 0.5
    exact, bound = bleugrad.ExpectedBLEULoss(), bleugrad.ExpectedBLEULoss(method="bound")
    words, bound_words = (bleugrad.ExpectedBLEULoss(method=method, word_start=starts) for method in ("exact", "bound"))
    ended = bleugrad.ExpectedBLEULoss(word_start=starts, eos_id=0)
    mixed = bleugrad.ExpectedBLEULoss(cross_entropy_weight=0.1)
    recipe, smoothed = (
        bleugrad.ExpectedBLEULoss.recommended(eos_id=0, word_start=starts, label_smoothing=share)
        for share in (0, SMOOTHING)
    )

    def cross_entropy(share: float) -> Tensor:
        return F.cross_entropy(logits.view(-1, vocabulary), labels.view(-1), label_smoothing=share)

    return {
        "cross_entropy": step(lambda: cross_entropy(0), logits),
        "cross_entropy, smoothed": step(lambda: cross_entropy(SMOOTHING), logits),
        "recommended": step(lambda: recipe(logits, labels), logits),
        "recommended, smoothed": step(lambda: smoothed(logits, labels), logits),
        "exact": step(lambda: exact(logits, labels), logits),
        "bound": step(lambda: bound(logits, labels), logits),
        "exact + 0.1 CE": step(lambda: mixed(logits, labels), logits),
        "exact, words": step(lambda: words(logits, labels), logits),
        "bound, words": step(lambda: bound_words(logits, labels), logits),
        "exact, words, EOS": step(lambda: ended(logits, labels), logits),
    }


def linear_candidates(batch: int, steps: int, vocabulary: int) -> dict[str, Callable[[], None]]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(batch, steps, WIDTH, generator=generator).requires_grad_()
    weight = torch.randn(vocabulary, WIDTH, generator=generator).div_(math.sqrt(WIDTH)).requires_grad_()
    frozen = weight.detach()
    labels = torch.randint(vocabulary, (batch, steps), generator=generator)
    chunked = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=CHUNK_ROWS, chunking_method=None)
    loss, overwriting = bleugrad.ExpectedBLEULoss(), bleugrad.ExpectedBLEULoss(inplace=True)

    def cross_entropy(projection: Tensor) -> Tensor:
        return F.linear_cross_entropy(hidden.view(-1, WIDTH), projection, labels.view(-1), options=chunked)

    return {
        "linear_cross_entropy": step(lambda: cross_entropy(weight), hidden, weight),
        "fused": step(lambda: loss(bleugrad.Projection(hidden, weight), labels), hidden, weight),
        "plain": step(lambda: loss(hidden @ weight.T, labels), hidden, weight),
        "plain, in place": step(lambda: overwriting(hidden @ weight.T, labels), hidden, weight),
        "linear_cross_entropy, frozen": step(lambda: cross_entropy(frozen), hidden),
        "fused, frozen": step(lambda: loss(bleugrad.Projection(hidden, frozen), labels), hidden),
    }


def half_candidates(batch: int, steps: int, vocabulary: int) -> dict[str, Callable[[], None]]:
    """Logits in bfloat16, as under autocast."""
    candidates = plain_candidates(batch, steps, vocabulary, torch.bfloat16)
    return {name: candidates[name] for name in ("cross_entropy", "recommended, smoothed", "exact")}


FAMILIES = {"plain": plain_candidates, "half": half_candidates, "linear": linear_candidates}


def peak_kilobytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def measure_memory(family: str, name: str, shape: tuple[int, int, int]) -> None:
    """Child process: print the growth of the peak over two steps, beyond inputs; a small step first warms up."""
    torch.set_num_threads(1)
    FAMILIES[family](2, 5, 64)[name]()
    run = FAMILIES[family](*shape)[name]
    before = peak_kilobytes()
    run()
    run()
    print((peak_kilobytes() - before) / 1024)


def extra_megabytes(family: str, name: str, shape: tuple[int, int, int]) -> float:
    """Peak memory a step needs beyond its inputs, gradients of the inputs included."""
    command = [sys.executable, __file__, "--memory-of", family, name, *map(str, shape)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_times(family: str, shape: tuple[int, int, int], threads: int, rounds: int) -> None:
    """Child process: print the milliseconds of the candidates."""
    torch.set_num_threads(threads)
    print(json.dumps(milliseconds(FAMILIES[family](*shape), rounds)))


def milliseconds(candidates: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    seconds = best_times(candidates, rounds, warmup=0, steady=True)
    return {name: round(1000 * value, 3) for name, value in seconds.items()}


def time_rows(
    family: str, shapes: list[tuple[int, int, int]], rounds: int, allocators: tuple[str, ...]
) -> list[dict[str, object]]:
    """With one thread and two; each shape in a process of its own."""
    rows: list[dict[str, object]] = []
    for allocator, threads, shape in itertools.product(allocators, (1, 2), shapes):
        command = [sys.executable, __file__, "--times-of", family, *map(str, (*shape, threads, rounds))]
        variables = {**os.environ, **ALLOCATORS[allocator]}
        found = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
        row = {"family": family, "shape": shape, "threads": threads, "allocator": allocator}
        rows.append({**row, "milliseconds": json.loads(found)})
        print_row(rows[-1])
    return rows


def print_row(row: dict) -> None:
    times = row["milliseconds"]
    baseline = next(iter(times))
    ratios = "  ".join(
        f"{name} {value / _baseline(times, name):.2f}" for name, value in times.items() if name != baseline
    )
    where = f"{row['shape']!s:20} {row['threads']} thread  {row['allocator']:8}"
    print(f"{where} {baseline} {times[baseline]:8.1f} ms   {ratios}", flush=True)


def _baseline(times: dict[str, float], name: str) -> float:
    first = next(iter(times))
    return times.get(f"{first}, frozen", times[first]) if name.endswith("frozen") else times[first]


def memory_rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for family, shapes, names in (
        ("plain", [*SHAPES, (2, 4096, 32000)], ["cross_entropy", "recommended, smoothed", "exact", "bound"]),
        ("linear", [*PROJECTIONS, (16, 100, 32000)], ["linear_cross_entropy", "fused", "plain", "plain, in place"]),
    ):
        for shape in shapes:
            logits = 4 * math.prod(shape) / MEGABYTE
            sizes = {name: round(extra_megabytes(family, name, shape), 1) for name in names}
            rows.append({"family": family, "shape": shape, "logits_megabytes": round(logits, 1), "megabytes": sizes})
            listed = "  ".join(f"{name} {size:.0f}" for name, size in sizes.items())
            print(f"{shape!s:20} logits {logits:6.0f} MB   extra peak, MB: {listed}", flush=True)
    return rows


def growth_rows(rounds: int) -> list[dict[str, object]]:
    """Time of the exact loss and of cross-entropy as one dimension grows."""
    torch.set_num_threads(1)
    sweeps = {
        "V": [(16, 30, size) for size in (1000, 4000, 16000, 64000, 256000)],
        "T = R": [(4, size, 1000) for size in (32, 64, 128, 256, 512, 1024, 2048)],
        "B": [(size, 30, 8000) for size in (1, 4, 16, 64, 256)],
    }
    rows: list[dict[str, object]] = []
    for name, shapes in sweeps.items():
        for shape in shapes:
            candidates = plain_candidates(*shape)
            chosen = {name: candidates[name] for name in ("cross_entropy", "exact", "bound")}
            rows.append({"grows": name, "shape": shape, "milliseconds": milliseconds(chosen, rounds)})
            print(name, shape, rows[-1]["milliseconds"], flush=True)
    return rows


def draw_growth(rows: list[dict], target: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True, layout="constrained")
    for panel, (name, axis) in zip(panels, {"V": 2, "T = R": 1, "B": 0}.items(), strict=True):
        chosen = [row for row in rows if row["grows"] == name]
        sizes = [row["shape"][axis] for row in chosen]
        styles = {"cross_entropy": ("#000000", "s"), "exact": ("#0072B2", "o"), "bound": ("#D55E00", "^")}
        for candidate, (colour, marker) in styles.items():
            times = [row["milliseconds"][candidate] for row in chosen]
            slope = math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])
            label = f"{candidate.replace('_', '-')}, slope {slope:.2f} at the end"
            panel.loglog(sizes, times, color=colour, marker=marker, label=label)
        fixed = ", ".join(f"{letter} = {value}" for letter, value in _fixed(name, chosen[0]["shape"]).items())
        panel.set(xlabel=name, title=fixed)
        panel.grid(True, which="major", alpha=0.3)
        panel.legend(fontsize=8, loc="upper left", frameon=False)
    panels[0].set_ylabel("forward and backward, ms")
    panels[0].set_ylim(top=panels[0].get_ylim()[1] * 12)
    for suffix in ("png", "svg"):
        figure.savefig(target.with_suffix(f".{suffix}"), dpi=150)


def _fixed(grows: str, shape: tuple[int, int, int]) -> dict[str, int]:
    return {letter: size for letter, size in zip(("B", "T = R", "V"), shape, strict=True) if letter != grows}


def summary(record: dict) -> str:
    """The tables in Markdown, as the documentation shows them."""
    lines = [
        "| B, T, V | threads | memory | cross-entropy, ms | cross-entropy, smoothed | recommended, smoothed "
        "| recommended | exact | bound | exact, words | exact, words, EOS |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in (row for row in record["times"] if row["family"] == "plain"):
        times = row["milliseconds"]
        shown = ("cross_entropy, smoothed", "recommended, smoothed", "recommended")
        shown += ("exact", "bound", "exact, words", "exact, words, EOS")
        ratios = [times[name] / times["cross_entropy"] for name in shown]
        cells = [
            _shape(row),
            str(row["threads"]),
            RETURNED[row["allocator"]],
            f"{times['cross_entropy']:.1f}",
            *(f"{ratio:.2f}" for ratio in ratios),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "*Recommended* is `ExpectedBLEULoss.recommended` in words with EOS; *smoothed* has a label smoothing of "
        f"{SMOOTHING}. bfloat16 logits, as a multiple of cross-entropy of them:",
        "",
        "| B, T, V | threads | cross-entropy, ms | recommended, smoothed | exact |",
        "|---|---|---|---|---|",
    ]
    for row in (row for row in record["times"] if row["family"] == "half"):
        times = row["milliseconds"]
        ratios = " | ".join(
            f"{times[name] / times['cross_entropy']:.2f}" for name in ("recommended, smoothed", "exact")
        )
        lines.append(f"| {_shape(row)} | {row['threads']} | {times['cross_entropy']:.1f} | {ratios} |")
    lines += [
        "",
        f"From hidden states of width {WIDTH}, as a multiple of `linear_cross_entropy` in chunks of {CHUNK_ROWS} rows:",
        "",
        "| B, T, V | threads | linear_cross_entropy, ms | fused | plain | plain, in place | fused, frozen projection |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in (row for row in record["times"] if row["family"] == "linear"):
        times = row["milliseconds"]
        ratios = [
            times[name] / _baseline(times, name) for name in ("fused", "plain", "plain, in place", "fused, frozen")
        ]
        cells = [
            _shape(row),
            str(row["threads"]),
            f"{times['linear_cross_entropy']:.0f}",
            *(f"{r:.2f}" for r in ratios),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Peak memory of a step beyond its inputs, gradients included, in MB:",
        "",
        "| B, T, V | logits | |",
        "|---|---|---|",
    ]
    for row in record["memory"]:
        listed = ", ".join(f"{name} {size:.0f}" for name, size in row["megabytes"].items())
        lines.append(f"| {_shape(row)} | {row['logits_megabytes']:.0f} | {listed} |")
    described = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
    return "\n".join(
        [
            *lines,
            "",
            f"Measured in float32 with the C kernels on {described}; best of {record['rounds']} rounds, each an "
            "untimed and a timed step.",
            "",
        ]
    )


def _shape(row: dict) -> str:
    return ", ".join(map(str, row["shape"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="turns of each candidate (default 10)")
    parser.add_argument("--growth", action="store_true", help="also measure growth and draw it")
    parser.add_argument("--output", type=Path, help="directory for loss.json, summary.md and growth.png/.svg")
    parser.add_argument("--memory-of", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--times-of", nargs=6, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        family, name, *shape = arguments.memory_of
        return measure_memory(family, name, tuple(map(int, shape)))
    if arguments.times_of:
        family, *numbers = arguments.times_of
        *shape, threads, rounds = map(int, numbers)
        return measure_times(family, tuple(shape), threads, rounds)

    print("memory")
    memory = memory_rows()
    print("time, as a multiple of cross-entropy")
    times = time_rows("plain", SHAPES + SMALL_SHAPES, arguments.rounds, tuple(ALLOCATORS))
    print("time of bfloat16 logits, as a multiple of cross-entropy")
    times += time_rows("half", SHAPES[:2], arguments.rounds, ("default",))
    print(f"time from hidden states of width {WIDTH}, as a multiple of linear_cross_entropy in chunks of {CHUNK_ROWS}")
    times += time_rows("linear", PROJECTIONS, max(3, arguments.rounds // 3), ("default",))
    record = {"machine": machine(), "rounds": arguments.rounds, "times": times, "memory": memory}
    if arguments.growth:
        record["growth"] = growth_rows(max(3, arguments.rounds // 2))
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "loss.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        (arguments.output / "summary.md").write_text(summary(record), encoding="utf-8")
        if arguments.growth:
            draw_growth(record["growth"], arguments.output / "growth")
    return None


if __name__ == "__main__":
    main()
