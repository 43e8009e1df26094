"""Compares gradients of a decoder that is fed its own samples: REINFORCE, and closed form with score function.

    python benchmarks/fed_samples.py                              # measure and print, about a minute
    python benchmarks/fed_samples.py --output results/fed_samples # also save fed_samples.json and summary.md

A small attention LSTM learns to reverse sentences with cross-entropy. At several numbers of steps the gradient in all
parameters is drawn many times for one batch, with the same number of samples per sentence. REINFORCE (leave-one-out)
estimates the gradient of 1 - E[BLEU] of the samples, FedSamplesBLEULoss that of 1 - expected BLEU of the rows, in the
mean over the samples that are fed, with its own control variate or with leave-one-out. The closed form alone leaves
the gradient through the samples out. The relative variance is the variance over the squared length of the mean
gradient, times the samples per sentence. The cosine is that of the mean gradients with the mean of FedSamplesBLEULoss.
Times are CPU times of one gradient, model included.
"""

import argparse
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from estimators import Blocks, compare, spread, with_error
from timing import best_times, keep, machine
from torch import Tensor

import bleugrad
from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.models.feeding import feed, token_log_probs
from bleugrad.lab.models.lstm.model import AttentionLSTM
from bleugrad.lab.models.search.beams import beam
from bleugrad.lab.special_ids import BOS, EOS, PAD
from bleugrad.losses.rewards import leave_one_out

NAMES = (
    "REINFORCE, leave-one-out",
    "closed form and score function",
    "the same, leave-one-out",
    "closed form alone",
)


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    sentences: int = 16
    lengths: tuple[int, int] = (5, 9)
    vocabulary: int = 60
    hidden: int = 48
    samples: int = 4
    training_steps: tuple[int, ...] = (100, 150)
    blocks: int = 12
    calls: int = 5  # per block
    pairs: int = 25
    timing_rounds: int = 5


LARGEST_ERROR = 0.1
"""Standard error of a cosine above which it is not shown."""


@dataclass(frozen=True)
class Case:
    source: Tensor
    lengths: Tensor
    references: list[list[int]]

    @classmethod
    def drawn(cls, settings: Settings, number: int, generator: torch.Generator) -> "Case":
        """Random sentences, whose references are their reversals."""
        lengths = torch.randint(settings.lengths[0], settings.lengths[1] + 1, (number,), generator=generator)
        ids = torch.randint(4, settings.vocabulary, (number, settings.lengths[1]), generator=generator)
        inside = torch.arange(settings.lengths[1]) < lengths[:, None]
        references = [row[:length].tolist()[::-1] for row, length in zip(ids, lengths.tolist(), strict=True)]
        return cls(torch.where(inside, ids, PAD), lengths, references)

    def inputs(self) -> Tensor:
        rows = [torch.tensor([BOS, *reference]) for reference in self.references]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)

    def labels(self) -> Tensor:
        rows = [torch.tensor([*reference, EOS]) for reference in self.references]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)


def train(model: AttentionLSTM, settings: Settings, steps: int, generator: torch.Generator) -> None:
    optimizer = torch.optim.Adam(model.parameters(), 0.005)
    for _ in range(steps):
        case = Case.drawn(settings, 64, generator)
        logits = model(case.source, case.lengths, case.inputs())
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), case.labels().flatten()).backward()
        optimizer.step()


def draw(model: AttentionLSTM, case: Case, settings: Settings, name: str) -> Tensor:
    """One gradient in all parameters."""
    memory, number = model.encode(case.source, case.lengths), settings.samples
    inputs = case.inputs().repeat_interleave(number, 0)
    fed = feed(model, memory, inputs, "sample", steps=settings.lengths[1] + 4)
    tokens = fed.tokens.masked_fill(~fed.mask, -100)
    shape = (settings.sentences, number, tokens.shape[1])
    if name.startswith("REINFORCE"):
        rewards = bleugrad.ReinforceLoss(samples=number, baseline="leave-one-out", eos_id=EOS)
        log_probs = token_log_probs(fed.logits, tokens).view(shape)
        loss = rewards.from_samples(tokens.view(shape), log_probs, case.references)
    elif name == "closed form alone":
        again = [reference for reference in case.references for _ in range(number)]
        closed = bleugrad.ExpectedBLEULoss(level="sentence", eos_id=EOS)
        loss = closed(fed.logits, references=again, mask=fed.mask)
    elif name == "the same, leave-one-out":
        fed_samples = bleugrad.FedSamplesBLEULoss(eos_id=EOS)
        bleu, log_probs, _ = fed_samples.scored(fed.logits, tokens.view(shape), case.references, None)
        advantages = bleu.detach() - leave_one_out(bleu.detach())
        loss = 1 - (bleu + advantages * log_probs.sum(2)).mean()
    else:
        loss = bleugrad.FedSamplesBLEULoss(eos_id=EOS)(fed.logits, tokens.view(shape), case.references)
    return torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(model.parameters()))])


def measure(model: AttentionLSTM, case: Case, settings: Settings, steps: int) -> dict[str, Any]:
    draws: dict[str, Callable[[], Tensor]] = {name: partial(draw, model, case, settings, name) for name in NAMES}
    times = best_times(draws, settings.timing_rounds, clock=time.process_time)
    means = {name: Blocks(one, settings.blocks, settings.calls) for name, one in draws.items()}
    rows = {}
    for name, one in draws.items():
        squared, squared_error = with_error(means[name].squared_length, settings.blocks)
        row = rows[name] = {"milliseconds": 1e3 * times[name], **spread(one, 2 * settings.pairs)}
        row |= {"squared_length": squared, "squared_length_error": squared_error}
        row["per_sample"] = row["variance"] / squared * settings.samples
        row |= compare(means[name], means[NAMES[1]])
    found = [best for (best,) in beam(model, case.source, case.lengths, 1, settings.lengths[1] + 4)]
    score = bleugrad.bleu([one.tokens for one in found], case.references, smoothing=1.0, level="corpus")
    return {"training_steps": steps, "greedy_bleu": float(score.value), "rows": rows}


def run(settings: Settings) -> dict[str, Any]:
    torch.manual_seed(settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    case = Case.drawn(settings, settings.sentences, generator)
    sizes = ModelConfig(embedding=settings.hidden, hidden=settings.hidden, dropout=0.0)
    model, done, cases = AttentionLSTM(sizes, settings.vocabulary, settings.vocabulary), 0, []
    for steps in settings.training_steps:
        train(model, settings, steps - done, generator)
        done = steps
        cases.append(measure(model, case, settings, steps))
        print(f"measured after {steps} steps", flush=True)
    return {"settings": dataclasses.asdict(settings), "machine": {**machine(), "threads": "1"}, "cases": cases}


def summary(results: dict[str, Any]) -> str:
    lines = [
        "| steps of cross-entropy | greedy BLEU | estimator | relative variance per sample | cosine | ms |",
        "|---|---|---|---|---|---|",
    ]
    for case in results["cases"]:
        for name, row in case["rows"].items():
            cosine = f"{row['cosine']:.2f} ± {row['cosine_error']:.2f}"
            if row["cosine_error"] > LARGEST_ERROR:
                cosine = "too noisy"
            lines.append(
                f"| {case['training_steps']} | {100 * case['greedy_bleu']:.1f} | {name} | {row['per_sample']:.3g} "
                f"| {cosine} | {row['milliseconds']:.1f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="folder for fed_samples.json and summary.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = run(Settings())
    print(summary(results))
    keep(arguments.output, "fed_samples", results, summary(results))


if __name__ == "__main__":
    main()
