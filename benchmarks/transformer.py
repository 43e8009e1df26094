"""Speed of the Transformer of the transformer-multi30k preset, compared with models of the same shape.

    python benchmarks/transformer.py --data ../shared/data
    python benchmarks/transformer.py --output results/transformer

1. Training: steps per second compared with a bare ``torch.nn.Transformer`` with the same sizes, tied embeddings, label
   smoothing, clipping and Adam.
2. Search: beam search compared with ``generate`` of a Marian transformer with the same sizes and random weights. Both
   end each sentence at the length of its reference. In file order, ``generate`` gets the sentences as they stand in
   the file, and bleugrad sorts them by length first, as ``bleugrad translate`` does. One at a time, batches have one
   sentence. At a fixed length both end all sentences of a sorted batch at the mean length of its references, so that
   both take the same number of steps with the same number of rows.

Candidates take turns in one process, with one thread. Times are processor time, so that other programs on the machine
change them little. The best of several rounds counts for each batch, and the batches are summed.
"""

import argparse
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torch.nn.functional as F
from multi30k import Setting, add_data_option, load, step, train_shortly
from search import WIDTH, fixed_length, marian, parameters
from timing import best_times, keep, machine
from torch import Tensor, nn
from transformers import LogitsProcessorList

from bleugrad.lab.data.batches import Batch
from bleugrad.lab.models.search.beams import beam
from bleugrad.lab.models.transformer import position_codes
from bleugrad.lab.special_ids import EOS

Times = dict[str, float]
BATCH, ALONE = 128, 32


class Bare(nn.Module):
    """``nn.Transformer`` with embeddings and output of one matrix."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        config = setting.config.model
        self.width = config.hidden
        self.embedding = nn.Embedding(setting.model.target_size, config.hidden)
        self.output = nn.Linear(config.hidden, setting.model.target_size)
        self.output.weight = self.embedding.weight
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.Transformer(
            config.hidden,
            config.heads,
            config.encoder_layers,
            config.decoder_layers,
            round(config.inner_factor * config.hidden),
            config.dropout,
            batch_first=True,
            norm_first=True,
        )
        self.layers.encoder.enable_nested_tensor = False
        nn.init.normal_(self.embedding.weight, std=config.hidden**-0.5)

    def embedded(self, tokens: Tensor) -> Tensor:
        vectors = self.embedding(tokens) * math.sqrt(self.width)
        return self.dropout(vectors + position_codes(tokens.shape[1], vectors))

    def forward(self, batch: Batch) -> Tensor:
        padding = torch.arange(batch.source.shape[1]) >= batch.source_lengths[:, None]
        inputs = batch.inputs()
        later = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1])
        hidden = self.layers(
            self.embedded(batch.source),
            self.embedded(inputs),
            tgt_mask=later,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return self.output(hidden)


def bare_step(setting: Setting) -> Callable[[Batch], None]:
    """A training step of the bare model as in the trainer."""
    model = Bare(setting).train()
    optimizer = torch.optim.Adam(model.parameters(), 0.0, fused=True)
    smoothing, weights = setting.config.objective.label_smoothing, list(model.parameters())

    def run(batch: Batch) -> None:
        logits = model(batch).flatten(0, 1)
        F.cross_entropy(logits, batch.labels.flatten(), ignore_index=-100, label_smoothing=smoothing).backward()
        torch.nn.utils.clip_grad_norm_(weights, setting.config.optimizer.clip)
        optimizer.step()
        optimizer.zero_grad()

    return run


def added(totals: Times, found: Times) -> Times:
    return {name: totals.get(name, 0.0) + seconds for name, seconds in found.items()}


def measure_training(setting: Setting, batches: list[Batch], rounds: int) -> Times:
    """Processor seconds of the steps on all batches."""
    setting.model.train()
    optimizer = torch.optim.Adam(setting.model.parameters(), 0.0, fused=True)
    config = setting.config
    ours = step(setting.model, config.objective, optimizer, config.optimizer.clip)
    bare = bare_step(setting)
    totals: Times = {}
    for batch in batches:
        calls = {"bleugrad": lambda batch=batch: ours(batch), "nn.Transformer": lambda batch=batch: bare(batch)}
        totals = added(totals, best_times(calls, rounds, clock=time.process_time))
    print(
        "training", totals, f"{totals['nn.Transformer'] / totals['bleugrad']:.2f} of its steps per second", flush=True
    )
    return totals


class EndAt:
    """Forces EOS after ``lengths`` (B,) tokens of each sentence, and forbids it before."""

    def __init__(self, lengths: Tensor) -> None:
        self.lengths = lengths.repeat_interleave(WIDTH)

    def __call__(self, tokens: Tensor, scores: Tensor) -> Tensor:
        ends = self.lengths == tokens.shape[1] - 1  # one token starts the decoder
        scores[:, EOS] = torch.where(ends, 0.0, -torch.inf)
        return scores.masked_fill(ends[:, None] & (torch.arange(scores.shape[1]) != EOS), -torch.inf)


def measure_search(setting: Setting, sentences: int, rounds: int) -> dict[str, Times]:
    """Processor seconds of a beam of 5 on the first sentences of the test set, by batches and lengths."""
    other = marian(setting, setting.config.model.encoder_layers, setting.config.model.inner_factor)
    setting.model.output.bias.data[EOS] = -1e4  # never before the largest length
    indices = list(range(min(sentences, len(setting.test.encoded))))
    ranked = sorted(indices, key=lambda index: -len(setting.test.encoded.sources[index]))
    by_length, in_file = batches_of(setting, ranked, BATCH), batches_of(setting, indices, BATCH)
    alone = batches_of(setting, indices[:: -(-len(indices) // ALONE)], 1)
    found = {
        "sentences in file order": searched(setting, other, by_length, in_file, rounds),
        "sentences sorted by length": searched(setting, other, by_length, by_length, rounds),
        f"one sentence at a time ({len(alone)} sentences)": searched(setting, other, alone, alone, rounds),
        "sorted, fixed length": searched(setting, other, by_length, by_length, rounds, fixed=True),
    }
    for name, totals in found.items():
        print("search", name, totals, f"{totals['generate'] / totals['bleugrad']:.2f} times faster", flush=True)
    return found


def batches_of(setting: Setting, indices: list[int], size: int) -> list[Batch]:
    return [setting.test.collate(indices[start : start + size]) for start in range(0, len(indices), size)]


def searched(
    setting: Setting, other: nn.Module, own: list[Batch], its: list[Batch], rounds: int, fixed: bool = False
) -> Times:
    """Processor seconds of both on the same sentences, in batches of their own."""

    def lengths(batch: Batch) -> Tensor:
        found = (batch.labels != -100).sum(1) - 1
        return torch.full_like(found, fixed_length(batch)) if fixed else found

    totals: Times = {}
    with torch.no_grad():
        for mine, given in zip(own, its, strict=True):
            calls = {
                "bleugrad": lambda batch=mine: ours(setting, batch, lengths(batch)),
                "generate": lambda batch=given: theirs(other, batch, lengths(batch)),
            }
            if calls["generate"]().shape[1] != 2 + int(lengths(given).max()):
                raise RuntimeError("generate must take as many steps as the longest reference has tokens")
            totals = added(totals, best_times(calls, rounds, warmup=0, clock=time.process_time))
    return totals


def ours(setting: Setting, batch: Batch, lengths: Tensor) -> list:
    return beam(setting.model, batch.source, batch.source_lengths, WIDTH, lengths)


def theirs(other: nn.Module, batch: Batch, lengths: Tensor) -> Tensor:
    mask = (torch.arange(batch.source.shape[1]) < batch.source_lengths[:, None]).long()
    settings = {"num_beams": WIDTH, "max_new_tokens": int(lengths.max()) + 1, "early_stopping": True}
    ending = LogitsProcessorList([EndAt(lengths)])
    return other.generate(input_ids=batch.source, attention_mask=mask, logits_processor=ending, **settings)


def summary(record: dict) -> str:
    training = record["training"]
    rows = [("training steps", "nn.Transformer", training["bleugrad"], training["nn.Transformer"])]
    for name, times in record["search"].items():
        rows.append((f"beam of {WIDTH}, {name}", "generate of Marian", times["bleugrad"], times["generate"]))
    lines = ["| measured | compared with | time, s | time of the other, s | speed-up |", "|---|---|---|---|---|"]
    lines += [f"| {what} | {other} | {mine:.2f} | {its:.2f} | {its / mine:.2f} |" for what, other, mine, its in rows]
    described = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
    return "\n".join(lines) + (
        f"\n\n{record['corpus']}, preset transformer-multi30k, one thread, processor time: {record['batches']} "
        f"training batches of 64 sentences, and {record['sentences']} test sentences in batches of {BATCH}. Both "
        "searches end each sentence at the length of its reference; bleugrad then takes it out of the batch. In file "
        "order, bleugrad sorts the sentences itself, as its command does, and `generate` takes them as they come. At a "
        "fixed length both take the same steps with the same rows, and matrix products of the same sizes are most of "
        "the time. Models have "
        f"{record['parameters']:,} parameters. Best of {record['rounds']} rounds per batch; candidates take turns in "
        f"one process, while other programs used the machine. Measured on {described}.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_option(parser)
    parser.add_argument("--rounds", type=int, default=5, help="rounds per batch (default 5)")
    parser.add_argument("--batches", type=int, default=4, help="number of training batches (default 4)")
    parser.add_argument("--sentences", type=int, default=512, help="number of test sentences (default 512)")
    parser.add_argument("--train-steps", type=int, default=0, help="steps before the measurement (default 0)")
    parser.add_argument("--output", type=Path, help="directory for transformer.json and summary.md")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    setting = load(arguments.data, "transformer-multi30k")
    train_shortly(setting, arguments.train_steps)
    batches = [setting.train.collate(indices) for indices in setting.train.epoch(1)[: arguments.batches]]
    record = {
        "machine": machine(),
        "corpus": setting.note,
        "rounds": arguments.rounds,
        "batches": len(batches),
        "sentences": min(arguments.sentences, len(setting.test.encoded)),
        "parameters": parameters(setting.model),
        "training": measure_training(setting, batches, arguments.rounds),
        "search": measure_search(setting, arguments.sentences, arguments.rounds),
    }
    keep(arguments.output, "transformer", record, summary(record))


if __name__ == "__main__":
    main()
