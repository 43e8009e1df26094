"""Times beam search on the Multi30k test set: in batches, one sentence at a time, and Hugging Face's ``generate``.

    python benchmarks/search.py --data ../shared/data
    python benchmarks/search.py --output results/search

1. The model of the multi30k preset is trained for a few hundred steps, so that translations have realistic lengths. It
   translates the test set with a beam of 5, in batches of similar length and one sentence at a time. Both give the same
   translations; the benchmark prints how many differ because of rounding.
2. The same model is compared with a Marian transformer of about the same number of parameters and random weights. Both
   must stop at the mean reference length of the batch, so that both take the same number of steps.

All candidates translate each batch in turn; the best of several rounds counts.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from multi30k import Setting, add_data_option, load, train_shortly
from timing import keep, machine

from bleugrad.lab.data.batches import Batch
from bleugrad.lab.models.search.beams import beam
from bleugrad.lab.models.search.hypothesis import Hypothesis
from bleugrad.lab.special_ids import BOS, EOS, PAD

WIDTH = 5


def translate(setting: Setting, batch: Batch) -> list[Hypothesis]:
    limits = 2 * batch.source_lengths + 10
    return [best for (best,) in beam(setting.model, batch.source, batch.source_lengths, WIDTH, limits)]


def translate_alone(setting: Setting, batch: Batch) -> list[Hypothesis]:
    return [translate(setting, setting.test.collate([index]))[0] for index in batch.indices.tolist()]


def measure_batching(setting: Setting, batches: list[Batch], threads: int, rounds: int) -> dict[str, object]:
    """Seconds of both methods over all batches, and the number of translations that differ."""
    torch.set_num_threads(threads)
    seconds = {"batches": 0.0, "one at a time": 0.0}
    different = tokens = 0
    for batch in batches:
        found, best = timed({"batches": translate, "one at a time": translate_alone}, setting, batch, rounds)
        for name, value in best.items():
            seconds[name] += value
        pairs = list(zip(found["batches"], found["one at a time"], strict=True))
        different += sum(one.tokens != other.tokens for one, other in pairs)
        tokens += sum(len(one.tokens) for one, _ in pairs)
    sentences = sum(len(batch) for batch in batches)
    row = {"threads": threads, "sentences": sentences, "seconds": rounded(seconds), "different": different}
    row |= {"mean_length": round(tokens / sentences, 1)}
    print(row, f"{seconds['one at a time'] / seconds['batches']:.1f} times faster", flush=True)
    return row


def timed(
    candidates: dict[str, Callable[[Setting, Batch], object]], setting: Setting, batch: Batch, rounds: int
) -> tuple[dict, dict[str, float]]:
    best = dict.fromkeys(candidates, float("inf"))
    found = {}
    for _ in range(rounds):
        for name, call in candidates.items():
            began = time.perf_counter()
            found[name] = call(setting, batch)
            best[name] = min(best[name], time.perf_counter() - began)
    return found, best


def rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in seconds.items()}


def marian(setting: Setting, layers: int = 3, inner: float = 4.0) -> torch.nn.Module:
    """A transformer of similar size: the same width, ``layers`` encoder and decoder layers, shared embeddings."""
    from transformers import MarianConfig, MarianMTModel

    width = setting.config.model.hidden
    sizes = {
        f"{side}_{what}": value
        for side in ("encoder", "decoder")
        for what, value in _layers(width, layers, inner).items()
    }
    config = MarianConfig(
        vocab_size=max(setting.model.source_size, setting.model.target_size),
        d_model=width,
        max_position_embeddings=256,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=BOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        **sizes,
    )
    return MarianMTModel(config).eval()


def _layers(width: int, layers: int, inner: float) -> dict[str, int]:
    return {"layers": layers, "attention_heads": 4, "ffn_dim": round(inner * width)}


def fixed_length(batch: Batch) -> int:
    return round(batch.tokens / len(batch)) - 1


def translate_fixed(setting: Setting, batch: Batch) -> object:
    length = fixed_length(batch)
    return beam(setting.model, batch.source, batch.source_lengths, WIDTH, length, minimum=length)


def measure_generate(
    setting: Setting, other: torch.nn.Module, batches: list[Batch], threads: int, rounds: int
) -> dict[str, object]:
    """Seconds of both models over all batches at fixed lengths."""
    torch.set_num_threads(threads)

    def generate(_: Setting, batch: Batch) -> object:
        steps = fixed_length(batch) + 1
        mask = (torch.arange(batch.source.shape[1]) < batch.source_lengths[:, None]).long()
        return other.generate(
            input_ids=batch.source, attention_mask=mask, num_beams=WIDTH, min_new_tokens=steps, max_new_tokens=steps
        )

    seconds = {"bleugrad": 0.0, "generate": 0.0}
    for batch in batches:
        found, best = timed({"bleugrad": translate_fixed, "generate": generate}, setting, batch, rounds)
        if {len(one[0].tokens) + 2 for one in found["bleugrad"]} != {found["generate"].shape[1]}:
            raise RuntimeError("the two models must take the same number of steps")
        for name, value in best.items():
            seconds[name] += value
    row = {"threads": threads, "sentences": sum(len(batch) for batch in batches), "seconds": rounded(seconds)}
    print(row, f"{seconds['generate'] / seconds['bleugrad']:.1f} times faster", flush=True)
    return row


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def summary(record: dict) -> str:
    lines = [
        "| compared with | threads | time in batches, s | time of the other, s | speed-up |",
        "|---|---|---|---|---|",
    ]
    for kind, other in (("batching", "one at a time"), ("generate", "generate")):
        for row in record.get(kind, []):
            ours, theirs = row["seconds"].values()
            cells = [f"{other}", str(row["threads"]), f"{ours:.1f}", f"{theirs:.1f}", f"{theirs / ours:.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
    described = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
    counts = "; ".join(
        f"with {row['threads']} thread(s), {row['different']} of {row['sentences']} translations differ because of "
        f"rounding (mean length {row['mean_length']})"
        for row in record["batching"]
    )
    return "\n".join(
        [
            *lines,
            "",
            f"Beam of {WIDTH} on {record['corpus']}, {record['batch']} sentences per batch. Batches compared with one "
            f"sentence at a time: {counts}. `generate` runs a Marian transformer with "
            f"{record['marian_parameters'] / 1e6:.1f} million parameters and random weights; this model has "
            f"{record['parameters'] / 1e6:.1f} million. Both run at a fixed length.",
            "",
            f"Measured on {described}. Best of {record['rounds']} rounds per batch; candidates take turns.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_option(parser)
    parser.add_argument("--sentences", type=int, default=1000, help="number of test sentences (default 1000)")
    parser.add_argument("--batch", type=int, default=128, help="sentences per batch (default 128)")
    parser.add_argument(
        "--train-steps", type=int, default=400, help="steps of cross-entropy before the measurement (default 400)"
    )
    parser.add_argument("--rounds", type=int, default=2, help="rounds per batch (default 2)")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads to measure (default 1 2)"
    )
    parser.add_argument("--output", type=Path, help="directory for search.json and summary.md")
    arguments = parser.parse_args()

    setting = load(arguments.data)
    loss = train_shortly(setting, arguments.train_steps)
    setting.model.eval()
    batches = [setting.test.collate(indices) for indices in setting.test.ordered(arguments.batch)]
    batches = batches[: -(-arguments.sentences // arguments.batch)]
    other = marian(setting)
    record = {
        "machine": machine(),
        "corpus": f"{setting.note}, {sum(map(len, batches))} test sentences",
        "rounds": arguments.rounds,
        "batch": arguments.batch,
        "training_loss": round(loss, 3),
        "parameters": parameters(setting.model),
        "marian_parameters": parameters(other),
        "batching": [measure_batching(setting, batches, number, arguments.rounds) for number in arguments.threads],
        "generate": [measure_generate(setting, other, batches, n, arguments.rounds) for n in arguments.threads],
    }
    print(summary(record))
    keep(arguments.output, "search", record, summary(record))


if __name__ == "__main__":
    main()
