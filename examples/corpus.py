"""What the examples train on without a network: a made-up corpus, or files of a folder, and a tokenizer of its own."""

import argparse
import gzip
import itertools
import random
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<pad>", "</s>", "<unk>"]
NOUNS = {"hund": "dog", "vogel": "bird", "mann": "man", "lehrer": "teacher", "arzt": "doctor", "bruder": "brother"}
VERBS = {"sieht": "sees", "sucht": "looks for", "kennt": "knows", "hört": "hears", "ruft": "calls"}
ADJECTIVES = {"alten": "old", "kleinen": "small", "müden": "tired", "lauten": "loud"}
TIMES = {"heute": "today", "oft": "often", "nie": "never", "jetzt": "now", "": ""}


def options(description: str, steps: int, needs_data: str) -> argparse.ArgumentParser:
    """The options all examples have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--model", help="a pretrained model to fine-tune, by name or folder, instead of a small new one"
    )
    parser.add_argument("--data", type=Path, help=f"folder with {needs_data}, instead of a made-up corpus")
    parser.add_argument("--steps", type=int, default=steps, help="optimiser steps in all")
    parser.add_argument("--output", default="runs/example", help="folder of the trainer")
    return parser


def trainer_options(chosen: argparse.Namespace) -> dict[str, object]:
    """Arguments of a trainer with a constant learning rate that saves nothing."""
    steps = {"max_steps": chosen.steps, "warmup_steps": chosen.steps // 10, "logging_steps": max(chosen.steps // 8, 1)}
    return {"lr_scheduler_type": "constant_with_warmup", "save_strategy": "no", "report_to": "none", **steps}


def read_lines(path: Path) -> list[str]:
    if not path.exists():
        raise SystemExit(f"{path} does not exist")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def translation_pairs(data: Path | None) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """German and English sentences to train on, and others to test on."""
    if data is not None:
        parts = [
            list(zip(*(read_lines(data / f"{p}.{s}.gz") for s in ("de", "en")), strict=True))
            for p in ("train", "valid")
        ]
        return parts[0], parts[1][:200]
    pairs = []
    for subject, verb, adjective, noun, when in itertools.product(NOUNS, VERBS, ADJECTIVES, NOUNS, TIMES):
        german = f"der {subject} {verb} {when} den {adjective} {noun} ."
        english = f"the {NOUNS[subject]} {TIMES[when]} {VERBS[verb]} the {ADJECTIVES[adjective]} {NOUNS[noun]} ."
        pairs.append((" ".join(german.split()), " ".join(english.split())))
    random.Random(0).shuffle(pairs)
    return pairs[:-100], pairs[-100:]


def described_places(data: Path | None) -> tuple[list[tuple[str, list[str]]], list[tuple[str, list[str]]]]:
    """Facts, and several sentences that say them, to train on and to test on."""
    if data is not None:
        parts = []
        for source, references in (("train.multi.src", "train.refs.trg"), ("valid.src", "valid.refs.trg")):
            texts = [line.split("\t") for line in read_lines(data / f"{references}.gz")]
            parts.append(list(zip(read_lines(data / f"{source}.gz"), texts, strict=True)))
        return parts[0], parts[1][:200]
    names, kinds = ["the anchor", "blue door", "old mill", "corner house", "green tree"], ["pub", "café", "restaurant"]
    foods, areas = ["italian", "indian", "french", "english"], ["by the river", "in the centre", "near the station"]
    places = []
    for name, kind, food, area in itertools.product(names, kinds, foods, areas):
        facts = f"name {name} ; kind {kind} ; food {food} ; area {area}"
        texts = [
            f"{name} is a {kind} {area} that serves {food} food .",
            f"there is a {food} {kind} {area} called {name} .",
            f"{area} , {name} is a {kind} with {food} food .",
        ]
        places.append((facts, texts))
    random.Random(0).shuffle(places)
    return places[:-30], places[-30:]


def train_tokenizer(lines: list[str], size: int = 1000, end: bool = True) -> PreTrainedTokenizerFast:
    """Byte-pair encoding with a mark at the beginning of words; `end` adds the end token to what it encodes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    if end:
        tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=128
    )


def of_tokenizer(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    """Settings of a new model that depend on the tokenizer."""
    return {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }


def encode_pairs(tokenizer: PreTrainedTokenizerFast, pairs: list[tuple[str, str]]) -> list[dict]:
    """Features of an encoder-decoder model."""
    sources, targets = zip(*pairs, strict=True)
    encoded = tokenizer(list(sources), text_target=list(targets), truncation=True)
    names = ("input_ids", "attention_mask", "labels")
    return [dict(zip(names, row, strict=True)) for row in zip(*(encoded[name] for name in names), strict=True)]
