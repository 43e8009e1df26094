"""What the losses of one-pass models cost: CTC beside ``F.ctc_loss``, graphs beside min(E[count], c).

    python benchmarks/ctc.py                        # the tables, about two minutes
    python benchmarks/ctc.py --output results/ctc   # also kept as JSON

Times are forward and backward passes in one process and one thread, the candidates taking turns, best of several
rounds. The baseline of CTC includes the log-softmax that ``F.ctc_loss`` needs. References have half as many tokens as
there are frames or vertices, drawn from Zipf's law, so that some n-grams repeat.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from timing import best_times, machine
from torch import Tensor

import bleugrad
from bleugrad.backends import last_used

SHAPES = [(64, 40, 8000), (32, 60, 32000)]
GRAPHS = [*SHAPES, (8, 240, 8000)]
BLANK = 0


def step(loss: Callable[[], Tensor], *leaves: Tensor) -> Callable[[], None]:
    """Forward and backward from scratch."""

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        loss().backward()

    return run


def draw(batch: int, steps: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Logits, and labels without blank."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(batch, steps, vocabulary, generator=generator).requires_grad_()
    frequency = 1 / torch.arange(1, vocabulary, dtype=torch.float64)
    labels = 1 + torch.multinomial(frequency, batch * (steps // 2), replacement=True, generator=generator)
    return logits, labels.view(batch, steps // 2)


def ctc_candidates(batch: int, steps: int, vocabulary: int) -> dict[str, Callable[[], None]]:
    logits, labels = draw(batch, steps, vocabulary)
    frames, lengths = torch.full((batch,), steps), torch.full((batch,), labels.shape[1])
    exact = bleugrad.ExpectedBLEULoss()
    baseline = bleugrad.ExpectedBLEULoss(method="clipped_mean", max_order=2, weights=(0, 1))

    def ctc_loss() -> Tensor:
        return F.ctc_loss(logits.log_softmax(-1).transpose(0, 1), labels, frames, lengths, BLANK, zero_infinity=True)

    return {
        "log_softmax + ctc_loss": step(ctc_loss, logits),
        "exact": step(lambda: exact(bleugrad.CTC(logits, blank_id=BLANK), labels), logits),
        "min(E[count], c), order 2": step(lambda: baseline(bleugrad.CTC(logits, blank_id=BLANK), labels), logits),
        "exact, independent rows": step(lambda: exact(logits, references=labels), logits),
    }


def graph_candidates(batch: int, steps: int, vocabulary: int) -> dict[str, Callable[[], None]]:
    logits, labels = draw(batch, steps, vocabulary)
    transitions = torch.randn(batch, steps, steps, generator=torch.Generator().manual_seed(1)).requires_grad_()
    losses = {"min(E[count], c)": "clipped_mean", "exact": "exact"}

    def candidate(method: str) -> Callable[[], None]:
        loss = bleugrad.ExpectedBLEULoss(method=method)
        return step(lambda: loss(bleugrad.Graph(logits, transitions), labels), logits, transitions)

    return {name: candidate(method) for name, method in losses.items()}


def measure(
    candidates: Callable[..., dict[str, Callable[[], None]]], shapes: list[tuple[int, ...]], rounds: int
) -> list:
    """Print times and ratios to the first candidate, one line each."""
    results = []
    for shape in shapes:
        times = best_times(candidates(*shape), rounds)
        first = next(iter(times.values()))
        for name, seconds in times.items():
            print(f"{shape!s:18} {name:28} {1000 * seconds:9.1f} ms {seconds / first:6.2f}", flush=True)
        results.append({"shape": shape, "seconds": times})
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="timed rounds, of which the best counts (default: 7)")
    parser.add_argument("--output", type=Path, help="folder for ctc.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = {
        "machine": machine(),
        "rounds": arguments.rounds,
        "ctc": measure(ctc_candidates, SHAPES, arguments.rounds),
        "graph": measure(graph_candidates, GRAPHS, arguments.rounds),
        "backends": last_used(),
    }
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "ctc.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
