"""Rewards of tokens against rewards of whole sequences: variance of the policy gradient, and BLEU against steps.

    python benchmarks/token_rewards.py --data DIR --output results/token_rewards
    python benchmarks/token_rewards.py --redraw results/token_rewards     # the summary again from the kept numbers

A small causal model is trained by cross-entropy on ``tatoeba_tiny``. From that checkpoint it is trained on by policy
gradients on its own samples, with smoothed sentence BLEU as the score, and with the same number of samples and the same
learning rate for both advantages of a token at position t, means being over the samples of a sentence:

* group: the score of its sequence minus the mean score;
* token: the reward to go ``sum_{s >= t} r_s`` of ``bleugrad.token_rewards`` minus the mean reward to go at t.

The variance is that of the gradient over draws of samples for the same sentences, at the checkpoint, both advantages on
the same samples. DIR (or $BLEUGRAD_DATA) holds ``tatoeba_tiny``.
"""

import argparse
import copy
import dataclasses
import itertools
import json
import logging
import os
import statistics
import warnings
from pathlib import Path

import torch
from grpo_methods import pretrain
from grpo_task import Settings, Task, make_model, say
from torch import Tensor
from transformers import GPT2LMHeadModel, set_seed

import bleugrad

METHODS = ("group", "token")
SCORE = bleugrad.BLEU()


def sample(task: Task, model: GPT2LMHeadModel, indices: list[int]) -> tuple[Tensor, Tensor, Tensor, list]:
    """Whole sequences, their attention mask, the sampled tokens (B S, T), and a reference of each."""
    settings, tokenizer = task.settings, task.tokenizer
    prompts = [f"{task.pairs[index][0]} =" for index in indices]
    batch = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
    with torch.no_grad():
        options = {"do_sample": True, "top_k": 0, "max_new_tokens": settings.longest}
        whole = model.generate(**batch, **options, num_return_sequences=settings.samples)
    prompt = batch["input_ids"].shape[1]
    mask = batch["attention_mask"].repeat_interleave(settings.samples, 0)
    mask = torch.cat([mask, torch.ones_like(whole[:, prompt:])], 1)
    references = [tokenizer(task.pairs[index][1])["input_ids"] for index in indices for _ in range(settings.samples)]
    return whole, mask, whole[:, prompt:], references


def advantages(rewards: Tensor, samples: int, method: str) -> Tensor:
    """(B S, T) from the rewards of tokens (B S, T)."""
    to_go = rewards.flip(1).cumsum(1).flip(1)
    if method == "group":
        to_go = rewards.sum(1, keepdim=True).expand_as(rewards)
    grouped = to_go.view(-1, samples, rewards.shape[1])
    return (grouped - grouped.mean(1, keepdim=True)).view_as(rewards)


def losses(task: Task, model: GPT2LMHeadModel, indices: list[int], methods: tuple[str, ...]) -> list[Tensor]:
    """The loss of each method on the same samples."""
    end = task.tokenizer.eos_token_id
    whole, mask, tokens, references = sample(task, model, indices)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    start = whole.shape[1] - tokens.shape[1]
    logits = model(whole, attention_mask=mask, position_ids=positions).logits[:, start - 1 : -1]
    log_probs = logits.log_softmax(-1).gather(2, tokens[..., None]).squeeze(2)
    ended = (tokens == end).cumsum(1)
    used = (ended == 0) | ((ended == 1) & (tokens == end))
    rewards = bleugrad.token_rewards(tokens, references, SCORE, eos_id=end).float()
    found = [advantages(rewards, task.settings.samples, method) for method in methods]
    return [-(torch.where(used, advantage * log_probs, 0)).sum() / len(tokens) for advantage in found]


def gradient_variance(task: Task, model: GPT2LMHeadModel, batches: int, draws: int) -> dict[str, list[float]]:
    """Variance of the gradient over the squared norm of its mean, of each batch of sentences."""
    found: dict[str, list[float]] = {method: [] for method in METHODS}
    for indices in itertools.islice(task.batches(task.settings.batch // task.settings.samples, seed=7), batches):
        grads: dict[str, list[Tensor]] = {method: [] for method in METHODS}
        for _ in range(draws):
            values = losses(task, model, indices, METHODS)
            for method, value in zip(METHODS, values, strict=True):
                parts = torch.autograd.grad(value, list(model.parameters()), retain_graph=method != METHODS[-1])
                grads[method].append(torch.cat([part.flatten() for part in parts]).double())
        mean = torch.stack([one for method in METHODS for one in grads[method]]).mean(0)  # both are unbiased
        for method, rows in grads.items():
            deviations = torch.stack(rows) - torch.stack(rows).mean(0)
            found[method].append((deviations.square().sum(1).sum() / (draws - 1) / mean.square().sum()).item())
    return found


def train(task: Task, model: GPT2LMHeadModel, method: str, rate: float, steps: int, every: int, seed: int) -> list:
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    size, scores = task.settings.batch // task.settings.samples, [[0, round(task.score(model), 3)]]
    for step, indices in enumerate(itertools.islice(task.batches(size, seed=seed + 1), steps), start=1):
        model.eval()
        (value,) = losses(task, model, indices, (method,))
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % every == 0:
            scores.append([step, round(task.score(model), 3)])
    return scores


def run(settings: Settings, chosen: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    set_seed(settings.seed)
    task = Task(Path(chosen.data), settings)
    output, kept = chosen.output, chosen.output / "results.json"
    output.mkdir(parents=True, exist_ok=True)
    result = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"runs": []}
    plain = {"steps": chosen.steps, "rates": chosen.rates, "draws": chosen.draws, "batches": chosen.batches}
    result["settings"] = dataclasses.asdict(settings) | plain
    model, checkpoint = make_model(task.tokenizer, settings), output / "start.pt"
    if checkpoint.exists():
        model.load_state_dict(torch.load(checkpoint, weights_only=True))
    else:
        pretrain(task, model)
        torch.save(model.state_dict(), checkpoint)
    model = _without_hooks(model).eval()
    if "variance" not in result:
        set_seed(settings.seed)
        result["variance"] = gradient_variance(task, model, chosen.batches, chosen.draws)
        say(str(result["variance"]))
        write(result, output)
    done = {(one["method"], one["rate"], one["seed"]) for one in result["runs"]}
    for rate, seed, method in itertools.product(chosen.rates, range(3), METHODS):
        if (method, rate, seed) in done:
            continue
        set_seed(seed)
        scores = train(task, copy.deepcopy(model), method, rate, chosen.steps, chosen.steps // 2, seed)
        result["runs"].append({"method": method, "rate": rate, "seed": seed, "scores": scores})
        say(f"{method}, learning rate {rate:g}, seed {seed}: {scores}")
        write(result, output)


def _without_hooks(model: GPT2LMHeadModel) -> GPT2LMHeadModel:
    plain = GPT2LMHeadModel(model.config)
    plain.load_state_dict(model.state_dict())
    return plain


def write(result: dict, output: Path) -> None:
    (output / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (output / "summary.md").write_text(summary(result), encoding="utf-8")


def summary(result: dict) -> str:
    settings = result["settings"]
    lines = [
        "# Rewards of tokens against rewards of whole sequences",
        "",
        "`python benchmarks/token_rewards.py`: a causal model on tatoeba_tiny after "
        f"{settings['pretrain']} steps of cross-entropy, {settings['samples']} samples of each of "
        f"{settings['batch'] // settings['samples']} sentences per step. BLEU of greedy output on "
        f"{settings['sentences']} held-out sentences, mean of seeds and range.",
        "",
        f"Variance of the gradient over its squared norm, mean of {settings['batches']} batches of sentences with "
        f"{settings['draws']} draws each:",
        "",
        "| advantage | variance |",
        "|---|---|",
    ]
    lines += [f"| {name} | {statistics.mean(values):.2f} |" for name, values in result["variance"].items()]
    if not result["runs"]:
        return "\n".join([*lines, "", "BLEU against steps is not measured yet."]) + "\n"
    steps = sorted({step for one in result["runs"] for step, _ in one["scores"]})
    lines += ["", "| learning rate | advantage | seeds | " + " | ".join(f"step {step}" for step in steps) + " |"]
    lines.append("|" + "---|" * (3 + len(steps)))
    for rate, method in itertools.product(settings["rates"], METHODS):
        chosen = [one for one in result["runs"] if (one["rate"], one["method"]) == (rate, method)]
        runs = [dict(map(tuple, one["scores"])) for one in chosen]
        if runs:
            cells = [[one[step] for one in runs] for step in steps]
            texts = [f"{statistics.mean(cell):.2f} ({min(cell):.2f} to {max(cell):.2f})" for cell in cells]
            lines.append(f"| {rate:g} | {method} | {len(runs)} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("BLEUGRAD_DATA"))
    parser.add_argument("--output", type=Path, default=Path("runs/token_rewards"))
    parser.add_argument("--redraw", type=Path)
    parser.add_argument("--pretrain", type=int, default=400)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rates", type=float, nargs="+", default=[3e-4])
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--draws", type=int, default=24)
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
    run(Settings(pretrain=chosen.pretrain, sentences=300), chosen)


if __name__ == "__main__":
    main()
