"""Compares the default of ``bleugrad.hf.BLEULoss`` with cross-entropy, from models of several qualities.

    python benchmarks/recipe.py --data DIR --output results/recipe      # about an hour on one core
    python benchmarks/recipe.py --redraw results/recipe                 # rewrite the summary from saved numbers

A small Marian, T5 and GPT-2 are trained with cross-entropy on each corpus of DIR (or $BLEUGRAD_DATA). The weights are
kept when validation BLEU first reaches each of several targets, and at the end. From each of them the same number of
steps on the same batches is trained with cross-entropy and with the default, at two learning rates. The seed of a
comparison orders these batches. Rerun the command to resume: finished comparisons are read from runs.jsonl, kept
weights from the folder of ``--weights``.
"""

import argparse
import dataclasses
import itertools
import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from recipe_report import summary
from recipe_task import SCORER, Sizes, Task, make_model
from timing import machine

import bleugrad
from bleugrad.hf import BLEULoss
from bleugrad.losses import recipe


@dataclass(frozen=True)
class Settings:
    sizes: Sizes = Sizes()  # noqa: RUF009
    targets: tuple[float, ...] = (1, 4, 15, 30, 50)
    base_seed: int = 1
    base_rate: float = 3e-3
    base_steps: tuple[tuple[str, int], ...] = (("tatoeba_tiny", 1400), ("multi30k", 900))
    every: int = 50  # steps between validations of a base
    steps: int = 80
    rates: tuple[float, ...] = (3e-4, 1e-3)
    clip: float = 1.0
    draws: int = 200  # of the paired bootstrap


Cell = tuple[str, str, int]  # architecture, corpus, seed


def cells() -> list[Cell]:
    """The order of the comparisons: breadth first, and the slow ones last, so that an early stop loses little."""
    short, long = "tatoeba_tiny", "multi30k"
    first = [("t5", short, 1), ("marian", short, 1), ("gpt2", short, 1), ("gpt2", long, 1)]
    second = [("marian", short, 2), ("t5", short, 2), ("gpt2", short, 2), ("t5", long, 1), ("marian", long, 1)]
    later = [(*pair, seed) for seed in (2, 3) for pair in itertools.product(("gpt2", "t5", "marian"), (short, long))]
    return list(dict.fromkeys([*first, *second, *later]))


def optimise(
    task: Task,
    model: Any,
    loss: BLEULoss,
    settings: Settings,
    seed: int,
    rates: list[float],
    after: Callable[[int], bool],
) -> None:
    """One step per rate, until ``after(step)`` is True."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0)
    for step, (rate, batch) in enumerate(zip(rates, task.batches(model, seed), strict=False), start=1):
        model.train()
        optimizer.param_groups[0]["lr"] = rate
        labels = batch.pop("labels")
        value = loss(model(**batch), labels)
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        if after(step):
            return


def train_base(task: Task, cell: Cell, settings: Settings, folder: Path) -> list[dict[str, Any]]:
    """The kept weights: a file, step and validation BLEU each. Trains if they are not in the folder."""
    architecture, corpus, _ = cell
    seed = settings.base_seed
    name = f"{architecture}-{corpus}-{seed}"
    record = folder / f"{name}.json"
    if record.exists():
        return json.loads(record.read_text())
    torch.manual_seed(seed)
    model, kept, left = make_model(architecture, settings.sizes), [], list(settings.targets)
    steps = dict(settings.base_steps)[corpus]

    def after(step: int) -> bool:
        if step % settings.every == 0:
            bleu, ratio, _ = task.score(model, "valid")
            print(f"{name}: step {step}, BLEU {bleu:.2f}, length ratio {ratio:.2f}", flush=True)
            if bleu >= left[0] or (step == steps and bleu > 1.5 * kept[-1]["bleu"]):
                while left and bleu >= left[0]:
                    left.pop(0)
                file = folder / f"{name}-{step}.pt"
                torch.save(model.state_dict(), file)
                kept.append({"file": file.name, "step": step, "bleu": round(bleu, 2), "ratio": round(ratio, 3)})
        return not left

    rates = [settings.base_rate * min(1, step / 100) for step in range(1, steps + 1)]
    optimise(task, model, BLEULoss(model, task.tokenizer, bleu_weight=0.0), settings, seed, rates, after)
    record.write_text(json.dumps(kept))
    return kept


def continue_from(
    task: Task, cell: Cell, weights: Path, rate: float, settings: Settings, options: dict[str, Any]
) -> tuple[dict[str, Any], list[list[int]]]:
    """Trains the kept weights, and scores them; also the statistics of each test sentence."""
    model = make_model(cell[0], settings.sizes)
    model.load_state_dict(torch.load(weights, weights_only=True))
    loss = BLEULoss(model, task.tokenizer, **options)
    rates = [rate * (1 - step / settings.steps) for step in range(settings.steps)]
    optimise(task, model, loss, settings, 1000 + cell[2], rates, lambda step: False)
    logged = {name: round(value, 4) for name, value in loss.measurements().items()}
    scores: dict[str, Any] = {"logged": logged}
    for part in ("valid", "test"):
        bleu, ratio, statistics = task.score(model, part)
        scores |= {part: round(bleu, 3), f"{part}_ratio": round(ratio, 4)}
    return scores, statistics


def bootstrap(first: list[list[int]], second: list[list[int]], draws: int) -> float:
    """Standard deviation of the difference of BLEU over resampled sentences."""
    draw, found = random.Random(0), []
    for _ in range(draws):
        chosen = draw.choices(range(len(first)), k=len(first))
        one, two = (
            SCORER._compute_score_from_stats(torch.tensor([rows[index] for index in chosen]).sum(0).tolist()).score
            for rows in (first, second)
        )
        found.append(two - one)
    return float(torch.tensor(found).std())


def compare(
    task: Task, cell: Cell, base: dict[str, Any], rate: float, settings: Settings, folder: Path
) -> dict[str, Any]:
    """Both objectives from one base at one learning rate."""
    begin = time.perf_counter()
    weights = folder / base["file"]
    ce, first = continue_from(task, cell, weights, rate, settings, {"bleu_weight": 0.0})
    ours, second = continue_from(task, cell, weights, rate, settings, {})
    architecture, corpus, seed = cell
    return {
        "architecture": architecture,
        "corpus": corpus,
        "seed": seed,
        "base": base,
        "rate": rate,
        "cross_entropy": ce,
        "recipe": ours,
        "test_deviation": round(bootstrap(first, second, settings.draws), 3),
        "seconds": round(time.perf_counter() - begin),
    }


def run(settings: Settings, data: Path, output: Path, weights: Path) -> None:
    """All comparisons that are not in runs.jsonl."""
    runs = output / "runs.jsonl"
    done = [json.loads(line) for line in runs.read_text().splitlines()] if runs.exists() else []
    keys = {(one["architecture"], one["corpus"], one["seed"], one["base"]["file"], one["rate"]) for one in done}
    for cell in cells():
        task = Task(data, cell[1], cell[0], settings.sizes)
        for base, rate in itertools.product(reversed(train_base(task, cell, settings, weights)), settings.rates):
            if (*cell, base["file"], rate) in keys:
                continue
            found = compare(task, cell, base, rate, settings, weights)
            with runs.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BLEUGRAD_DATA"), help="folder with the corpora")
    parser.add_argument("--output", type=Path, help="folder for settings.json, runs.jsonl and summary.md")
    parser.add_argument("--weights", type=Path, default=Path("runs/recipe"), help="folder for the kept weights")
    parser.add_argument("--redraw", type=Path, help="folder with runs.jsonl; rewrite its summary without training")
    arguments = parser.parse_args()
    folder = arguments.redraw or arguments.output
    if folder is None or (arguments.redraw is None and arguments.data is None):
        parser.error("expected --redraw, or --output and --data")
    if arguments.redraw is None:
        transformers.logging.set_verbosity_error()
        torch.set_num_threads(1)
        folder.mkdir(parents=True, exist_ok=True)
        arguments.weights.mkdir(parents=True, exist_ok=True)
        settings = Settings()
        values = {name: getattr(recipe, name) for name in dir(recipe) if name.isupper()}
        about = {"settings": dataclasses.asdict(settings), "recipe": values, "machine": machine()}
        about |= {"versions": {"bleugrad": bleugrad.__version__, "transformers": transformers.__version__}}
        SCORER.corpus_score(["a"], [["a"]])  # which the signature needs
        about |= {"signature": str(SCORER.get_signature())}
        (folder / "settings.json").write_text(json.dumps(about, indent=1) + "\n")
        run(settings, arguments.data, folder, arguments.weights)
    (folder / "summary.md").write_text(summary(folder))


if __name__ == "__main__":
    main()
