"""Memory and time of training on a corpus that does not fit into memory as text.

    python benchmarks/large_corpus.py --pairs 10000000 --folder /tmp/large --output results/large_corpus

A synthetic corpus of random words is written once. One process encodes it into the cache. Another process finds the
cache, checks it, plans an epoch and takes some steps with a small Transformer. Each reports the peak of its resident
memory, mapped pages included, and its seconds of wall-clock and processor time, from the first import on.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

BLOCK = 100_000
WORDS = 20_000
LIMIT = 2048
"""MB of memory that the measurement allows."""


def write_corpus(folder: Path, pairs: int, seed: int = 0) -> None:
    """Training text of ``pairs`` random pairs of 5 to 20 words, drawn by Zipf's law, and small other splits."""
    import numpy as np

    random = np.random.default_rng(seed)
    share = 1 / np.arange(1, WORDS + 1)
    words = np.array([f"{random.integers(36**5):x}{place:x}" for place in range(WORDS)], object)
    cumulated = np.cumsum(share / share.sum())
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in (("valid", 100), ("test", 100), ("train", pairs)):
        with (folder / f"{split}.de").open("w") as source, (folder / f"{split}.en").open("w") as target:
            for start in range(0, size, BLOCK):
                number = min(BLOCK, size - start)
                for file in (source, target):
                    lengths = random.integers(5, 21, number)
                    ends = np.cumsum(lengths)
                    drawn = np.minimum(np.searchsorted(cumulated, random.random(int(ends[-1]))), WORDS - 1)
                    tokens = words[drawn].tolist()
                    begins = (ends - lengths).tolist()
                    lines = [" ".join(tokens[a:b]) for a, b in zip(begins, ends.tolist(), strict=True)]
                    file.write("\n".join(lines) + "\n")


def used(began: float) -> dict[str, float]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "peak_megabytes": round(peak),
        "seconds": round(time.monotonic() - began, 1),
        "processor_seconds": round(time.process_time(), 1),
    }


def child(stage: str, folder: Path, steps: int) -> dict[str, object]:
    """Encode, or take steps from what is encoded."""
    began = time.monotonic()
    import torch

    from bleugrad.lab.data.corpus import Split
    from bleugrad.lab.data.preparation import prepare
    from bleugrad.lab.models.kinds import build_model
    from bleugrad.lab.settings.loading import build
    from bleugrad.lab.training.config import TrainConfig
    from bleugrad.lab.training.processes import SingleProcess
    from bleugrad.lab.training.trainer import Trainer, TrainingSetup
    from bleugrad.lab.training.training_text import training_text

    torch.set_num_threads(1)
    data = {"corpus": "files", "directory": str(folder / "corpus"), "cache": str(folder / "cache"), "min_count": 1}
    model = {"kind": "transformer", "hidden": 64, "tied": "output"}
    config = build(TrainConfig, {"data": data, "model": model, "device": "cpu"})
    text = training_text(config.data, prepare(config.data, ("valid",)), None)
    if stage == "encode":
        return used(began) | {"pairs": len(text.encoded)}
    network = build_model(config.model, len(text.vocabularies.source), len(text.vocabularies.target))
    setup = TrainingSetup(config, network, text.vocabularies, text.encoded, Split([], []))
    trainer = Trainer(setup, SingleProcess("cpu"))
    windows = trainer.windows(1)
    batch = trainer.plan.collate(windows[0][0])
    first = used(began)
    losses = [trainer.take_step(windows[number])[0] for number in range(min(steps, len(windows)))]
    for number in range(len(losses), min(len(windows), 50 * steps)):  # the pages of many batches
        trainer.plan.collate(windows[number][0])
    return {
        "pairs": len(text.encoded),
        "steps_per_epoch": len(windows),
        "first_batch": first | {"sentences": len(batch)},
        "after_steps": used(began) | {"steps": len(losses), "first_loss": losses[0], "last_loss": losses[-1]},
    }


def run_child(stage: str, arguments: argparse.Namespace) -> dict:
    command = [sys.executable, __file__, "--stage", stage, "--folder", arguments.folder, "--steps", arguments.steps]
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(stage, found, flush=True)
    return found


def summary(record: dict) -> str:
    rows = [
        ("encode once", record["encode"]),
        ("first batch, once encoded", record["train"]["first_batch"]),
        (f"and {record['train']['after_steps']['steps']} steps", record["train"]["after_steps"]),
    ]
    lines = ["| stage | peak memory, MB | time, s | processor time, s |", "|---|---|---|---|"]
    for name, row in rows:
        lines.append(f"| {name} | {row['peak_megabytes']:,} | {row['seconds']} | {row['processor_seconds']} |")
    described = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
    sizes = f"{record['text_megabytes']:,} MB of text, {record['cache_megabytes']:,} MB encoded"
    return (
        "\n".join(lines) + f"\n\n{record['pairs']:,} random pairs of 5 to 20 words, {sizes}. Peak memory is resident "
        f"memory with mapped pages. Other programs ran beside it. Measured on {described}.\n"
    )


def megabytes(folder: Path) -> int:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="number of pairs (default %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="number of training steps (default %(default)s)")
    parser.add_argument(
        "--folder", type=Path, required=True, help="folder for corpus and cache; an existing corpus is used"
    )
    parser.add_argument("--output", type=Path, help="directory for large_corpus.json and summary.md")
    parser.add_argument("--stage", choices=("encode", "train"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        print(json.dumps(child(arguments.stage, arguments.folder, arguments.steps)))
        return
    from timing import keep, machine

    corpus = arguments.folder / "corpus"
    if not (corpus / "train.en").exists():
        write_corpus(corpus, arguments.pairs)
    record = {"machine": machine(), "pairs": arguments.pairs, "text_megabytes": megabytes(corpus)}
    record |= {"encode": run_child("encode", arguments), "train": run_child("train", arguments)}
    record["cache_megabytes"] = megabytes(arguments.folder / "cache")
    worst = max(part["peak_megabytes"] for part in (record["encode"], record["train"]["after_steps"]))
    print(f"peak {worst} MB of {LIMIT}")
    keep(arguments.output, "large_corpus", record, summary(record))


if __name__ == "__main__":
    main()
