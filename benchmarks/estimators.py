"""Compares estimators of the gradient of expected BLEU: variance, cost, bias, and speed of rewards.

    python benchmarks/estimators.py                             # measure and print, a few minutes
    python benchmarks/estimators.py --output results/estimators # also save numbers, table and figures
    python benchmarks/estimators.py --redraw results/estimators # redraw table and figures from saved numbers

Rows are independent and random. The logit of each reference token is set so that it has the probability on the x axis,
or is not changed ("untrained"). All gradients are those of the mean of 1 - E[BLEU] over the batch, with respect to the
logits. The true gradient is the mean of many unbiased gradients (UnbiasedBLEULoss). Its squared length is estimated
from products of different blocks, which are not inflated by noise. Standard errors use a jackknife over blocks.
"""

import argparse
import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import sacrebleu
import torch
import torch.nn.functional as F
from estimators_report import draw, level, summary, table
from timing import best_times, machine
from torch import Tensor

import bleugrad


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    sentences: int = 8
    shapes: tuple[tuple[int, int], ...] = ((10, 50), (30, 50), (10, 10000), (30, 10000))  # T, V
    probabilities: tuple[float | None, ...] = (None, 0.1, 0.3, 0.5, 0.8, 0.95)
    calls: int = 100
    truth_blocks: int = 20
    truth_calls: int = 3  # per block
    truth_samples: int = 32
    timing_rounds: int = 20
    large: tuple[int, int, int] = (16, 30, 32000)  # B, T, V of the comparison with cross-entropy
    reward_batches: int = 16
    reward_batch: int = 256
    reward_length: int = 30


ESTIMATORS: dict[str, Callable[..., torch.nn.Module]] = {
    "REINFORCE, no baseline": partial(bleugrad.ReinforceLoss, baseline="none"),
    "REINFORCE, greedy": partial(bleugrad.ReinforceLoss, baseline="greedy"),
    "REINFORCE, leave-one-out": partial(bleugrad.ReinforceLoss, samples=8, baseline="leave-one-out"),
    "minimum risk, alpha 0.005": partial(bleugrad.MinimumRiskLoss, samples=8, alpha=0.005),
    "minimum risk, alpha 1": partial(bleugrad.MinimumRiskLoss, samples=8, alpha=1.0),
    "unbiased, 1 sample": partial(bleugrad.UnbiasedBLEULoss, samples=1),
    "unbiased, 8 samples": partial(bleugrad.UnbiasedBLEULoss, samples=8),
}
SURROGATES: dict[str, Callable[..., torch.nn.Module]] = {
    "exact surrogate": partial(bleugrad.ExpectedBLEULoss, level="sentence"),
    "bound": partial(bleugrad.ExpectedBLEULoss, method="bound", level="sentence"),
}


def draw_rows(settings: Settings, steps: int, vocabulary: int, probability: float | None) -> tuple[Tensor, Tensor]:
    """Logits (B, T, V) from N(0, 1) and labels (B, T); sets the probability of the labels if one is given."""
    generator = torch.Generator().manual_seed(settings.seed)
    logits = torch.randn(settings.sentences, steps, vocabulary, generator=generator)
    labels = torch.randint(vocabulary, (settings.sentences, steps), generator=generator)
    if probability is not None:
        others = logits.scatter(2, labels[..., None], -torch.inf).logsumexp(2)
        own = others + math.log(probability / (1 - probability))
        logits.scatter_(2, labels[..., None], own[..., None])
    return logits, labels


def gradient(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, labels: Tensor) -> Tensor:
    leaf = logits.detach().requires_grad_()
    loss(leaf, labels).backward()
    return leaf.grad.flatten()


def products_of(rows: Tensor, others: Tensor) -> Tensor:
    """rows @ others.t(), summed in double precision, in chunks of columns."""
    pieces = zip(rows.split(2**16, 1), others.split(2**16, 1), strict=True)
    return sum(a.double() @ b.double().t() for a, b in pieces)


class Blocks:
    """Means of blocks of independent gradients."""

    def __init__(self, draw: Callable[[], Tensor], blocks: int, calls: int) -> None:
        self.means = torch.stack([sum(draw() for _ in range(calls)) / calls for _ in range(blocks)])
        self.gram = products_of(self.means, self.means)

    def squared_length(self, keep: list[int]) -> float:
        """Squared length of the expectation: the mean product of two different blocks, which noise does not inflate."""
        gram = self.gram[keep][:, keep]
        return float((gram.sum() - gram.trace()) / (len(keep) * (len(keep) - 1)))


def with_error(statistic: Callable[[list[int]], float], blocks: int) -> tuple[float, float]:
    """A statistic of all blocks, and its standard error by the jackknife."""
    whole = statistic(list(range(blocks)))
    parts = [statistic([i for i in range(blocks) if i != left_out]) for left_out in range(blocks)]
    return whole, math.sqrt((blocks - 1) / blocks * sum((part - whole) ** 2 for part in parts))


def root(squared: float) -> float:
    return math.sqrt(squared) if squared > 0 else math.nan


def compare(found: Blocks | Tensor, truth: Blocks) -> dict[str, float]:
    """Cosine and relative length of a gradient, or of the mean of an estimator, with standard errors."""
    if isinstance(found, Tensor):
        exact = found.double().norm().item()
        products = products_of(found[None], truth.means).expand(len(truth.means), -1)
    else:
        products = products_of(found.means, truth.means)

    def length(keep: list[int]) -> float:
        return exact if isinstance(found, Tensor) else root(found.squared_length(keep))

    def cosine(keep: list[int]) -> float:
        return products[keep][:, keep].mean().item() / (length(keep) * root(truth.squared_length(keep)))

    def ratio(keep: list[int]) -> float:
        return length(keep) / root(truth.squared_length(keep))

    result = {}
    for name, statistic in (("cosine", cosine), ("norm_ratio", ratio)):
        result[name], result[f"{name}_error"] = with_error(statistic, len(truth.means))
    return result


def spread(draw: Callable[[], Tensor], calls: int) -> dict[str, float]:
    """Variance of a gradient, summed over coordinates, from differences of pairs, with its standard error."""
    pairs = [0.5 * (draw() - draw()).double().square().sum().item() for _ in range(calls // 2)]
    variances = torch.tensor(pairs, dtype=torch.float64)
    return {"variance": variances.mean().item(), "variance_error": (variances.std() / math.sqrt(len(pairs))).item()}


def measure(settings: Settings, steps: int, vocabulary: int, probability: float | None) -> dict:
    logits, labels = draw_rows(settings, steps, vocabulary, probability)
    many = bleugrad.UnbiasedBLEULoss(samples=settings.truth_samples, generator=settings.seed + 1)
    truth = Blocks(partial(gradient, many, logits, labels), settings.truth_blocks, settings.truth_calls)
    squared, squared_error = with_error(truth.squared_length, settings.truth_blocks)
    losses = {name: build(generator=settings.seed + 2) for name, build in ESTIMATORS.items()}
    losses |= {name: build() for name, build in SURROGATES.items()}
    draws = {name: partial(gradient, loss, logits, labels) for name, loss in losses.items()}
    times = best_times(draws, settings.timing_rounds)
    rows = {}
    for name, once in draws.items():
        row = rows[name] = {"milliseconds": 1e3 * times[name]}
        if name in ESTIMATORS:
            row |= spread(once, settings.calls)
            row["samples"] = losses[name].samples
            row["per_sample"] = row["variance"] / squared * row["samples"]
            row["per_millisecond"] = row["variance"] / squared * row["milliseconds"]
        if name.startswith("minimum risk"):
            row |= compare(Blocks(once, settings.truth_blocks, settings.calls // settings.truth_blocks), truth)
        if name in SURROGATES:
            row |= compare(once(), truth)
    return {
        "T": steps,
        "V": vocabulary,
        "probability": probability,
        "truth_squared_length": squared,
        "truth_squared_length_error": squared_error,
        "expected_bleu": 1 - float(many(logits, labels)),
        "rows": rows,
    }


def reward_throughput(settings: Settings) -> dict[str, float]:
    """Sentences per second over several batches: bleugrad.bleu on ids, and a loop over sacreBLEU on the same text."""
    generator = torch.Generator().manual_seed(settings.seed)
    shape = (settings.reward_batches, settings.reward_batch, settings.reward_length)
    references = torch.randint(1000, shape, generator=generator)
    wrong = torch.rand(shape, generator=generator) < 0.5
    hypotheses = torch.where(wrong, torch.randint(1000, shape, generator=generator), references)
    texts = [[" ".join(map(str, row)) for row in ids.flatten(0, 1).tolist()] for ids in (hypotheses, references)]
    pairs = list(zip(*texts, strict=True))
    times = best_times(
        {
            "bleugrad.bleu": lambda: [
                bleugrad.bleu(x, y, level="sentence") for x, y in zip(hypotheses, references, strict=True)
            ],
            "sacrebleu.sentence_bleu": lambda: [sacrebleu.sentence_bleu(h, [r]) for h, r in pairs],
            "sacrebleu.sentence_bleu, tokenize='none'": lambda: [
                sacrebleu.sentence_bleu(h, [r], tokenize="none") for h, r in pairs
            ],
        },
        settings.timing_rounds,
    )
    return {name: len(pairs) / seconds for name, seconds in times.items()}


def large_vocabulary(settings: Settings) -> dict[str, float]:
    """Milliseconds of forward and backward pass with a large vocabulary, for all losses and cross-entropy."""
    batch, steps, vocabulary = settings.large
    generator = torch.Generator().manual_seed(settings.seed)
    logits = torch.randn(batch, steps, vocabulary, generator=generator)
    labels = torch.randint(vocabulary, (batch, steps), generator=generator)
    losses = {name: build() for name, build in (ESTIMATORS | SURROGATES).items()}
    calls = {name: partial(gradient, loss, logits, labels) for name, loss in losses.items()}
    calls["cross-entropy"] = partial(
        gradient, lambda rows, ids: F.cross_entropy(rows.view(-1, vocabulary), ids.view(-1)), logits, labels
    )
    return {name: 1e3 * seconds for name, seconds in best_times(calls, settings.timing_rounds).items()}


def run(settings: Settings) -> dict:
    cases = []
    for steps, vocabulary in settings.shapes:
        for probability in settings.probabilities:
            cases.append(measure(settings, steps, vocabulary, probability))
            print(f"measured T = {steps}, V = {vocabulary}, {level(probability)}", flush=True)
    return {
        "settings": dataclasses.asdict(settings),
        "machine": {**machine(), "threads": "1", "sacrebleu": version("sacrebleu"), "bleugrad": bleugrad.__version__},
        "cases": cases,
        "large_vocabulary_milliseconds": large_vocabulary(settings),
        "reward_sentences_per_second": reward_throughput(settings),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="folder for results.json, table.txt, summary.md and the figures")
    parser.add_argument("--redraw", type=Path, help="folder with results.json; redraw it without new measurements")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = arguments.redraw or arguments.output
    results = json.loads((folder / "results.json").read_text()) if arguments.redraw else run(Settings())
    text = table(results)
    print(text)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        (folder / "table.txt").write_text(text, encoding="utf-8")
        (folder / "summary.md").write_text(summary(results), encoding="utf-8")
        draw(results, folder)


if __name__ == "__main__":
    main()
