"""Measures the difference between subword BLEU and word BLEU on the distributions of real subword models.

    python benchmarks/subwords.py --data DIR                     # train, measure, print: half an hour on one core
    python benchmarks/subwords.py --data DIR --output results/subwords
    python benchmarks/subwords.py --redraw results/subwords      # redraw table and figure from saved numbers

One small English-German translation model per BPE vocabulary size is trained with cross-entropy and teacher forcing,
and saved at several steps. For each checkpoint and held-out sentences it measures expected BLEU of the teacher-forced
rows in tokens and in words, at the length of the reference; the true expected word BLEU of the same rows, from samples;
and the word BLEU of greedy output, by sacreBLEU. DIR (or $BLEUGRAD_DATA) holds ``tatoeba``.
"""

import argparse
import dataclasses
import gzip
import itertools
import json
import math
import os
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import sacrebleu
import torch
from subwords_report import draw, summarise, table
from timing import machine
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn

import bleugrad

PAD, BEGIN, END, UNKNOWN = range(4)
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
SMOOTHING = 1.0


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    corpus: str = "tatoeba"
    source: str = "en"
    target: str = "de"
    vocabularies: tuple[int, ...] = (500, 2000, 8000)
    checkpoints: tuple[int, ...] = (250, 500, 1000, 2000)
    batch: int = 64
    longest: int = 40  # tokens per training sentence
    width: int = 128
    layers: int = 2
    heads: int = 4
    dropout: float = 0.0
    learning_rate: float = 2e-3
    warmup: int = 200
    sentences: int = 500  # held-out sentences
    samples: int = 64  # per sentence, for the true expectation


def read_lines(data: Path, settings: Settings, part: str, language: str) -> list[str]:
    with gzip.open(data / settings.corpus / f"{part}.{language}.gz", "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def train_tokenizer(lines: list[str], size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL[UNKNOWN]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, lines: list[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokenizer.encode_batch(lines)]


def padded(rows: list[list[int]], fill: int = PAD) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows])


class Translator(nn.Module):
    """A Transformer whose decoder's embedding is its output projection."""

    def __init__(self, settings: Settings, source_size: int, target_size: int) -> None:
        super().__init__()
        width = settings.width
        options = {"dropout": settings.dropout, "batch_first": True, "norm_first": True}
        self.source = nn.Embedding(source_size, width)
        self.target = nn.Embedding(target_size, width)
        for embedding in (self.source, self.target):
            nn.init.normal_(embedding.weight, std=width**-0.5)
        encoder = nn.TransformerEncoderLayer(width, settings.heads, 2 * width, **options)
        decoder = nn.TransformerDecoderLayer(width, settings.heads, 2 * width, **options)
        self.encoder = nn.TransformerEncoder(encoder, settings.layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder, settings.layers, nn.LayerNorm(width))
        self.scale = math.sqrt(width)

    def positions(self, length: int) -> Tensor:
        half = torch.arange(self.source.embedding_dim // 2)
        angle = torch.arange(length)[:, None] / 10000 ** (half / len(half))
        return torch.cat([angle.sin(), angle.cos()], 1)

    def encode(self, source: Tensor) -> Tensor:
        embedded = self.source(source) * self.scale + self.positions(source.shape[1])
        return self.encoder(embedded, src_key_padding_mask=source == PAD)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """The state that predicts the token after each of ``target``: (B, T, H)."""
        embedded = self.target(target) * self.scale + self.positions(target.shape[1])
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        return self.decoder(embedded, memory, tgt_mask=future, memory_key_padding_mask=source == PAD)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source), source)


def batches(pairs: list[tuple[list[int], list[int]]], settings: Settings, generator: torch.Generator):
    """Endless batches of sentences of similar length."""
    while True:
        order = torch.randperm(len(pairs), generator=generator).tolist()
        for first in range(0, len(order) - 50 * settings.batch, 50 * settings.batch):
            pool = sorted(order[first : first + 50 * settings.batch], key=lambda index: len(pairs[index][1]))
            chunks = [pool[i : i + settings.batch] for i in range(0, len(pool), settings.batch)]
            for chunk in torch.randperm(len(chunks), generator=generator).tolist():
                yield [pairs[index] for index in chunks[chunk]]


def train(model: Translator, pairs: list[tuple[list[int], list[int]]], settings: Settings):
    """Trains, and yields each checkpoint step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98))

    def rate(step: int) -> float:
        return min((step + 1) / settings.warmup, math.sqrt(settings.warmup / (step + 1)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    begin = time.perf_counter()
    chosen = batches(pairs, settings, torch.Generator().manual_seed(settings.seed))
    for step, batch in enumerate(itertools.islice(chosen, settings.checkpoints[-1]), start=1):
        model.train()
        source, target = padded([s for s, _ in batch]), padded([[BEGIN, *t, END] for _, t in batch])
        logits = model(source, target[:, :-1]) @ model.target.weight.T
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step}: cross-entropy {loss.item():.3f}, {time.perf_counter() - begin:.0f} s", flush=True)
        if step in settings.checkpoints:
            model.eval()
            yield step


@torch.no_grad()
def greedy(model: Translator, source: Tensor, limit: int) -> list[list[int]]:
    memory, tokens = model.encode(source), torch.full((source.shape[0], 1), BEGIN)
    while tokens.shape[1] <= limit and not (tokens == END).any(1).all():
        logits = model.decode(tokens, memory, source)[:, -1] @ model.target.weight.T
        logits[:, [PAD, BEGIN]] = -torch.inf
        tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)
    rows = [row[1:] for row in tokens.tolist()]
    return [row[: row.index(END)] if END in row else row for row in rows]


@torch.no_grad()
def sampled_word_bleu(rows: Tensor, references: list[list[int]], mask: Tensor, starts: Tensor, count: int) -> Tensor:
    """Mean word BLEU of ``count`` sequences sampled from the rows of each sentence: (B,)."""
    total = torch.zeros(len(references), dtype=torch.float64)
    probs = rows.softmax(-1)
    for _ in range(count):
        drawn = torch.multinomial(probs.flatten(0, 1), 1).view_as(mask)
        drawn = drawn.masked_fill(~mask, -100)
        total += bleugrad.bleu(drawn, references, word_start=starts, smoothing=SMOOTHING, level="sentence").value
    return total / count


def word_numbers(texts: list[str], numbers: dict[str, int]) -> list[list[int]]:
    return [[numbers.setdefault(word, len(numbers)) for word in text.split()] for text in texts]


@torch.no_grad()
def measure(model: Translator, settings: Settings, tokenizer: Tokenizer, source: list[list[int]], texts: list[str]):
    """All scores of one checkpoint, for the corpus and for each sentence."""
    references = encode(tokenizer, texts)
    starts = bleugrad.word_start_mask(tokenizer)
    weight = model.target.weight
    sentence: dict[str, list[float]] = {"token": [], "word": [], "sampled": [], "lower": [], "upper": []}
    states, masks = [], []
    for first in range(0, len(references), 50):
        chunk = slice(first, first + 50)
        target = padded(references[chunk])
        mask = target != PAD
        begin = torch.full((len(target), 1), BEGIN)
        hidden = model(padded(source[chunk]), torch.cat([begin, target[:, :-1]], 1))
        options = {"mask": mask, "level": "sentence", "smoothing": SMOOTHING}
        token = bleugrad.expected_bleu(bleugrad.Projection(hidden, weight), references[chunk], **options)
        word = bleugrad.expected_bleu(
            bleugrad.Projection(hidden, weight), references[chunk], word_start=starts, **options
        )
        sampled = sampled_word_bleu(hidden @ weight.T, references[chunk], mask, starts, settings.samples)
        for name, values in (("token", token.value), ("word", word.value), ("sampled", sampled)):
            sentence[name] += values.tolist()
        sentence["lower"] += word.lower.tolist()
        sentence["upper"] += word.upper.tolist()
        states.append(hidden)
        masks.append(mask)
    width = max(mask.shape[1] for mask in masks)
    hidden = torch.cat([nn.functional.pad(part, (0, 0, 0, width - part.shape[1])) for part in states])
    mask = torch.cat([nn.functional.pad(part, (0, width - part.shape[1])) for part in masks])
    options = {"mask": mask, "level": "corpus", "smoothing": 0.0}
    expected_token = bleugrad.expected_bleu(bleugrad.Projection(hidden, weight), references, **options).value.item()
    expected_word = bleugrad.expected_bleu(
        bleugrad.Projection(hidden, weight), references, word_start=starts, **options
    ).value.item()

    decoded = list(itertools.chain(*(greedy(model, padded(source[i : i + 50]), 60) for i in range(0, len(source), 50))))
    outputs = tokenizer.decode_batch(decoded)
    again = encode(tokenizer, outputs)
    numbers: dict[str, int] = {}
    words, reference_words = word_numbers(outputs, numbers), word_numbers(texts, numbers)
    sentence["greedy_word"] = bleugrad.bleu(
        words, reference_words, smoothing=SMOOTHING, level="sentence"
    ).value.tolist()
    sentence["greedy_token"] = bleugrad.bleu(decoded, references, smoothing=SMOOTHING, level="sentence").value.tolist()
    scorer = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    return {
        "expected_token": expected_token,
        "expected_word": expected_word,
        "greedy_word": scorer.corpus_score(outputs, [texts]).score / 100,
        "greedy_token": bleugrad.bleu(decoded, references, smoothing=0).value.item(),
        "signature": str(scorer.get_signature()),
        "other_segmentation": float(np.mean([a != b for a, b in zip(decoded, again, strict=True)])),
        "sentences": {name: [round(value, 5) for value in values] for name, values in sentence.items()},
    }


def run(settings: Settings, data: Path) -> dict:
    lines = {side: read_lines(data, settings, "train", side) for side in (settings.source, settings.target)}
    held_out = {
        side: read_lines(data, settings, "valid", side)[: settings.sentences]
        for side in (settings.source, settings.target)
    }
    cases = []
    for size in settings.vocabularies:
        torch.manual_seed(settings.seed)
        source_tokenizer, tokenizer = (train_tokenizer(lines[side], size) for side in lines)
        both = encode(source_tokenizer, lines[settings.source]), encode(tokenizer, lines[settings.target])
        encoded = zip(*both, strict=True)
        pairs = [pair for pair in encoded if all(0 < len(side) <= settings.longest for side in pair)]
        model = Translator(settings, source_tokenizer.get_vocab_size(), tokenizer.get_vocab_size())
        source = encode(source_tokenizer, held_out[settings.source])
        texts = held_out[settings.target]
        lengths = [len(row) for row in encode(tokenizer, texts)]
        per_word = sum(lengths) / sum(len(text.split()) for text in texts)
        for step in train(model, pairs, settings):
            begin = time.perf_counter()
            case = {"vocabulary": size, "tokens_per_word": per_word, "step": step}
            case |= measure(model, settings, tokenizer, source, texts)
            cases.append(case)
            print({name: value for name, value in case.items() if name != "sentences"}, flush=True)
            print(f"measured in {time.perf_counter() - begin:.0f} s", flush=True)
    return {
        "settings": dataclasses.asdict(settings),
        "versions": {
            **machine(),
            "bleugrad": bleugrad.__version__,
            **{name: version(name) for name in ("tokenizers", "sacrebleu", "numpy")},
        },
        "summary": summarise(cases),
        "cases": cases,
    }


def write_results(results: dict, folder: Path) -> None:
    """Writes results.json, and the scores of each sentence to sentences.json."""
    cases = [{name: value for name, value in case.items() if name != "sentences"} for case in results["cases"]]
    (folder / "results.json").write_text(json.dumps(results | {"cases": cases}, indent=1) + "\n", encoding="utf-8")
    sentences = [case["sentences"] for case in results["cases"]]
    (folder / "sentences.json").write_text(json.dumps(sentences) + "\n", encoding="utf-8")


def read_results(folder: Path) -> dict:
    results, sentences = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("results", "sentences")
    )
    for case, own in zip(results["cases"], sentences, strict=True):
        case["sentences"] = own
    results["summary"] = summarise(results["cases"])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BLEUGRAD_DATA"), help="folder with the corpora")
    parser.add_argument("--output", type=Path, help="folder for results.json, table.txt and the figure")
    parser.add_argument("--redraw", type=Path, help="folder with results.json; redraw it without training")
    parser.add_argument("--quick", action="store_true", help="run a few steps only, as a check")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = arguments.redraw or arguments.output
    if arguments.redraw:
        results = read_results(folder)
    elif arguments.data is None:
        parser.error("no data folder: set --data or $BLEUGRAD_DATA to the folder with the corpora")
    else:
        settings = Settings()
        if arguments.quick:
            settings = Settings(vocabularies=(500, 2000), checkpoints=(20, 40), sentences=60, samples=8)
        results = run(settings, arguments.data)
    text = table(results)
    print(text)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_results(results, folder)
        (folder / "table.txt").write_text(text, encoding="utf-8")
        draw(results, folder)


if __name__ == "__main__":
    main()
