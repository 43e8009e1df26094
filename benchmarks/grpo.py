"""How long GRPO with a BLEU reward, REINFORCE and expected BLEU take to reach a given BLEU from the same start.

    python benchmarks/grpo.py --data DIR                             # half an hour on one core
    python benchmarks/grpo.py --data DIR --output results/grpo
    python benchmarks/grpo.py --redraw results/grpo                  # the summary again from the kept numbers
    python benchmarks/grpo.py --budget 8 --pretrain 60 --rates 3e-4  # a quick look

A small causal model is trained from scratch by cross-entropy on ``tatoeba_tiny`` (German to English, one token a
word). From that checkpoint each method trains on for the same time of one processor: cross-entropy, expected BLEU
(``bleugrad.hf.BLEULoss``), half of each, REINFORCE with a leave-one-out baseline on the model's own samples
(``bleugrad.ReinforceLoss``) and TRL's ``GRPOTrainer`` with ``bleugrad.hf.bleu_reward``. Each is run with every learning
rate of the list, and all runs are kept. BLEU is that of greedy output on held-out sentences, by sacreBLEU; scoring does
not count as training time. DIR (or $BLEUGRAD_DATA) holds ``tatoeba_tiny``.
"""

import argparse
import copy
import dataclasses
import itertools
import json
import logging
import os
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import sacrebleu
import torch
from grpo_methods import pretrain, train_grpo, train_reinforce, train_teacher_forced
from grpo_report import SHARES, summary, table
from grpo_task import LOG, Course, Settings, Task, make_model, say
from timing import machine
from transformers import GPT2LMHeadModel, set_seed

import bleugrad

METHODS = (*SHARES, "REINFORCE", "GRPO")


def train(method: str, rate: float, task: Task, start: GPT2LMHeadModel) -> list[dict]:
    """The scores of one method at one learning rate."""
    set_seed(task.settings.seed)
    model = copy.deepcopy(start)
    course = Course(model, task)
    course.score()
    if method == "GRPO":
        train_grpo(task, model, course, rate)
    elif method == "REINFORCE":
        train_reinforce(task, model, course, rate)
    else:
        train_teacher_forced(task, model, course, rate, bleu_weight=SHARES[method])
    return course.scores


def run(settings: Settings, data: Path, methods: list[str], output: Path | None) -> dict:
    torch.set_num_threads(1)
    set_seed(settings.seed)
    task = Task(data, settings)
    model = make_model(task.tokenizer, settings)
    begin = time.process_time()
    pretrain(task, model)
    start = task.score(model)
    say(f"common start: BLEU {start:.2f} after {time.process_time() - begin:.0f} s of processor time")
    model = _without_hooks(model)
    result = describe(settings, model, start)
    for method, rate in itertools.product(methods, settings.rates):
        scores = train(method, rate, task, model)
        result["runs"].append({"method": method, "rate": rate, "scores": scores})
        last = scores[-1]
        reached = f"BLEU {last['bleu']:.2f} after {last['step']} steps, {last['wall']:.0f} s"
        say(f"{method}, learning rate {rate:g}: {reached}")
        write(result, output)
    return result


def describe(settings: Settings, model: GPT2LMHeadModel, start: float) -> dict:
    """The result before the first run."""
    scorer = sacrebleu.BLEU(tokenize="none")
    scorer.corpus_score(["a"], [["a"]])
    libraries = ("torch", "transformers", "trl", "sacrebleu")
    return {
        "settings": dataclasses.asdict(settings),
        "machine": machine(),
        "versions": {"bleugrad": bleugrad.__version__, **{name: version(name) for name in libraries}},
        "signature": str(scorer.get_signature()),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "start": start,
        "runs": [],
    }


def write(result: dict, output: Path | None) -> None:
    """Everything so far, so that an interrupted benchmark keeps its finished runs."""
    if output is None:
        return
    output.mkdir(parents=True, exist_ok=True)
    (output / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (output / "summary.md").write_text(summary(result), encoding="utf-8")
    (output / "log.txt").write_text("\n".join(LOG) + "\n", encoding="utf-8")


def _without_hooks(model: GPT2LMHeadModel) -> GPT2LMHeadModel:
    """A copy of the parameters alone."""
    plain = GPT2LMHeadModel(model.config)
    plain.load_state_dict(model.state_dict())
    return plain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("BLEUGRAD_DATA"))
    parser.add_argument("--output", type=Path, help="folder for results.json, summary.md and log.txt")
    parser.add_argument("--redraw", type=Path, help="folder with results.json: its summary again, without training")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument(
        "--budget", type=float, default=Settings.budget, help="seconds of each method and learning rate"
    )
    parser.add_argument("--pretrain", type=int, default=Settings.pretrain, help="steps of cross-entropy before")
    parser.add_argument("--sentences", type=int, default=Settings.sentences, help="held out, scored")
    parser.add_argument("--rates", type=float, nargs="+", default=Settings.rates)
    chosen = parser.parse_args()
    if chosen.redraw is not None:
        result = json.loads((chosen.redraw / "results.json").read_text(encoding="utf-8"))
        (chosen.redraw / "summary.md").write_text(summary(result), encoding="utf-8")
        return
    if chosen.data is None or not (Path(chosen.data) / "tatoeba_tiny").is_dir():
        print("skipped: no tatoeba_tiny; give its folder with --data or $BLEUGRAD_DATA")
        return
    warnings.simplefilter("ignore")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    settings = Settings(
        seed=chosen.seed,
        budget=chosen.budget,
        interval=chosen.budget / 8,
        pretrain=chosen.pretrain,
        rates=tuple(chosen.rates),
        sentences=chosen.sentences,
    )
    say(str(settings))
    result = run(settings, Path(chosen.data), chosen.methods, chosen.output)
    say(table(result))
    write(result, chosen.output)


if __name__ == "__main__":
    main()
