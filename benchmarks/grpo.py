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
import gzip
import itertools
import json
import logging
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import sacrebleu
import torch
from grpo_report import SHARES, summary, table
from timing import machine
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, TrainerCallback, set_seed

import bleugrad
from bleugrad.hf import BLEUCollator, BLEULoss, BLEUReward, encode_completion

SPECIAL = ["<pad>", "</s>", "<unk>", "="]
METHODS = (*SHARES, "REINFORCE", "GRPO")


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    width: int = 128
    layers: int = 3
    heads: int = 4
    batch: int = 64  # sentences of a step, or sampled sequences
    samples: int = 8  # of each sentence, for REINFORCE and GRPO
    longest: int = 16  # tokens generated
    pretrain: int = 800  # steps of cross-entropy before all methods
    pretrain_rate: float = 1e-3
    rates: tuple[float, ...] = (3e-5, 1e-4, 3e-4)
    budget: float = 30.0  # seconds of processor time for each method and learning rate
    interval: float = 3.75  # seconds of processor time between two scores
    sentences: int = 500  # held out, scored
    gains: tuple[float, ...] = (1.0, 2.0, 4.0, 6.0)  # the BLEU to reach, above the common start


def read_pairs(data: Path, part: str) -> list[tuple[str, str]]:
    sides = []
    for language in ("de", "en"):
        with gzip.open(data / "tatoeba_tiny" / f"{part}.{language}.gz", "rt", encoding="utf-8") as file:
            sides.append(file.read().splitlines())
    return list(zip(*sides, strict=True))


def make_tokenizer(pairs: list[tuple[str, str]]) -> PreTrainedTokenizerFast:
    words = sorted({word for pair in pairs for line in pair for word in line.split()} - set(SPECIAL))
    vocabulary = {word: index for index, word in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def make_model(tokenizer: PreTrainedTokenizerFast, settings: Settings) -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=64,
        n_embd=settings.width,
        n_layer=settings.layers,
        n_head=settings.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return GPT2LMHeadModel(config)


@dataclass
class Clock:
    """Processor and wall-clock time of training, stopped while scoring."""

    processor: float = 0.0
    wall: float = 0.0
    _since: tuple[float, float] | None = None

    def start(self) -> None:
        self._since = (time.process_time(), time.perf_counter())

    def stop(self) -> None:
        if self._since is not None:
            self.processor, self.wall = self.read()
            self._since = None

    def read(self) -> tuple[float, float]:
        if self._since is None:
            return self.processor, self.wall
        processor, wall = self._since
        return self.processor + time.process_time() - processor, self.wall + time.perf_counter() - wall


@dataclass
class Course:
    """Scores of one method over its training time."""

    model: GPT2LMHeadModel
    task: "Task"
    clock: Clock = field(default_factory=Clock)
    scores: list[dict] = field(default_factory=list)
    steps: int = 0

    def score(self) -> None:
        self.clock.stop()
        bleu = self.task.score(self.model)
        seconds = {"processor": round(self.clock.processor, 2), "wall": round(self.clock.wall, 2)}
        self.scores.append({"step": self.steps, **seconds, "bleu": round(bleu, 3)})
        self.model.train()
        self.clock.start()

    def step(self) -> bool:
        """After a step: score where it is time, and say whether time is left."""
        self.steps += 1
        spent, _ = self.clock.read()
        over = spent >= self.task.settings.budget
        if over or spent >= len(self.scores) * self.task.settings.interval:
            self.score()
        return not over


class Task:
    """Data, tokenizer and scores, the same for all methods."""

    def __init__(self, data: Path, settings: Settings) -> None:
        self.settings = settings
        self.pairs = read_pairs(data, "train")
        self.held_out = read_pairs(data, "valid")[: settings.sentences]
        self.tokenizer = make_tokenizer(self.pairs)
        self.rows = [encode_completion(self.tokenizer, f"{de} =", en) for de, en in self.pairs]

    def batches(self, size: int, seed: int) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(seed)
        while True:
            order = torch.randperm(len(self.rows), generator=generator).tolist()
            yield from (order[first : first + size] for first in range(0, len(order) - size + 1, size))

    @torch.no_grad()
    def score(self, model: GPT2LMHeadModel) -> float:
        model.eval()
        outputs: list[str] = []
        for first in range(0, len(self.held_out), 100):
            prompts = [f"{de} =" for de, _ in self.held_out[first : first + 100]]
            batch = self.tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
            ids = model.generate(**batch, max_new_tokens=self.settings.longest, do_sample=False)
            outputs += self.tokenizer.batch_decode(ids[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
        references = [en for _, en in self.held_out]
        return sacrebleu.corpus_bleu(outputs, [references], tokenize="none", force=True).score


def train_teacher_forced(task: Task, model: GPT2LMHeadModel, course: Course, rate: float, bleu_weight: float) -> None:
    """Cross-entropy or expected BLEU: one pass a step, no samples."""
    loss = BLEULoss(model, task.tokenizer, bleu_weight=bleu_weight)
    collate = BLEUCollator(task.tokenizer, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    for indices in task.batches(task.settings.batch, seed=1):
        batch = collate([task.rows[index] for index in indices])
        labels = batch.pop("labels")
        value = loss(model(**batch), labels)
        _descend(value, model, optimizer)
        if not course.step():
            return


def train_reinforce(task: Task, model: GPT2LMHeadModel, course: Course, rate: float) -> None:
    """Samples of the model itself, rewarded by BLEU, the mean of a sentence's other samples as baseline."""
    settings, tokenizer = task.settings, task.tokenizer
    end = tokenizer.eos_token_id
    loss = bleugrad.ReinforceLoss(settings.samples, baseline="leave-one-out", eos_id=end)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    for indices in task.batches(settings.batch // settings.samples, seed=1):
        prompts = [f"{task.pairs[index][0]} =" for index in indices]
        references = [tokenizer(task.pairs[index][1])["input_ids"] for index in indices]
        batch = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
        model.eval()
        with torch.no_grad():
            whole = model.generate(
                **batch,
                do_sample=True,
                top_k=0,
                max_new_tokens=settings.longest,
                num_return_sequences=settings.samples,
            )
        model.train()
        prompt = batch["input_ids"].shape[1]
        mask = batch["attention_mask"].repeat_interleave(settings.samples, 0)
        mask = torch.cat([mask, torch.ones_like(whole[:, prompt:])], 1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        logits = model(whole, attention_mask=mask, position_ids=positions).logits[:, prompt - 1 : -1]
        tokens = whole[:, prompt:]
        log_probs = logits.log_softmax(-1).gather(2, tokens[..., None]).squeeze(2)
        shape = (len(indices), settings.samples, tokens.shape[1])
        value = loss.from_samples(tokens.view(shape), log_probs.view(shape), [[one] for one in references])
        _descend(value, model, optimizer)
        if not course.step():
            return


def train_grpo(task: Task, model: GPT2LMHeadModel, course: Course, rate: float) -> None:
    """TRL's trainer, which samples, rewards and normalises within each sentence's samples."""
    import datasets
    import trl

    class Watch(TrainerCallback):
        def on_train_begin(self, args, state, control, **_):
            course.clock.start()

        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = not course.step()

    settings = task.settings
    rows = [{"prompt": f"{de} =", "reference": en} for de, en in task.pairs]
    config = trl.GRPOConfig(
        output_dir="runs/grpo",
        learning_rate=rate,
        lr_scheduler_type="constant",
        per_device_train_batch_size=settings.batch,
        num_generations=settings.samples,
        max_completion_length=settings.longest,
        max_steps=10**6,
        beta=0.0,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="no",
        seed=settings.seed,
    )
    course.clock.stop()
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=BLEUReward(tokenize="none"),
        args=config,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=task.tokenizer,
        callbacks=[Watch()],
    )
    trainer.train()


def _descend(loss: torch.Tensor, model: GPT2LMHeadModel, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def pretrain(task: Task, model: GPT2LMHeadModel) -> None:
    settings = task.settings
    loss, collate = BLEULoss(model, task.tokenizer, bleu_weight=0.0), BLEUCollator(task.tokenizer, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.pretrain_rate, weight_decay=0.0)
    for step, indices in enumerate(itertools.islice(task.batches(settings.batch, seed=0), settings.pretrain), start=1):
        for group in optimizer.param_groups:
            group["lr"] = settings.pretrain_rate * min(step / 100, 1.0)
        batch = collate([task.rows[index] for index in indices])
        labels = batch.pop("labels")
        value = loss(model(**batch), labels)
        _descend(value, model, optimizer)
        if step % 200 == 0:
            say(f"pre-training step {step}: cross-entropy {value.item():.3f}")


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


LOG: list[str] = []


def say(line: str) -> None:
    print(line, flush=True)
    LOG.append(line)


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
