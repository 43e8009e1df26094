"""What all methods of the comparison with GRPO share: data, model, scores and the clock that measures them."""

import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import sacrebleu
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from bleugrad.hf import encode_completion

SPECIAL = ["<pad>", "</s>", "<unk>", "="]
LOG: list[str] = []


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


def say(line: str) -> None:
    """Print, and keep for log.txt."""
    print(line, flush=True)
    LOG.append(line)
