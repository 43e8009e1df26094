"""Small translation models of transformers, their data and their scores, for ``recipe.py``."""

import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from bleugrad.hf import BLEUCollator, encode_completion

SPECIAL = ("<pad>", "</s>", "<unk>")
SCORER = sacrebleu.BLEU(tokenize="none", force=True)
Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Sizes:
    width: int = 64
    layers: int = 2  # of GPT-2; the others have half of them in the encoder and half in the decoder
    heads: int = 4
    vocabulary: int = 1000
    batch: int = 32
    longest: int = 24  # words per training sentence
    held_out: int = 400  # sentences of the validation and of the test set
    limit: int = 40  # tokens per generated sentence


def read_pairs(data: Path, corpus: str, part: str) -> Pairs:
    files = [data / corpus / f"{part}.{side}.gz" for side in ("de", "en")]
    sides = [gzip.decompress(file.read_bytes()).decode("utf-8").splitlines() for file in files]
    return [(source.strip(), target.strip()) for source, target in zip(*sides, strict=True)]


def train_tokenizer(pairs: Pairs, size: int) -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE(unk_token=SPECIAL[2]))
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(SPECIAL), show_progress=False)
    bpe.train_from_iterator([line for pair in pairs for line in pair], trainer)
    bpe.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, pad_token=SPECIAL[0], eos_token=SPECIAL[1], unk_token=SPECIAL[2], padding_side="left"
    )


def make_model(architecture: str, sizes: Sizes) -> Any:
    """An untrained model without dropout, which so few steps do not need."""
    ids = {"pad_token_id": 0, "eos_token_id": 1, "vocab_size": sizes.vocabulary}
    width, layers, heads = sizes.width, sizes.layers, sizes.heads
    if architecture == "gpt2":
        shape = {"n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": 256}
        drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        return GPT2LMHeadModel(GPT2Config(**ids, **shape, **drops, bos_token_id=1))
    layers //= 2
    if architecture == "t5":
        shape = {"d_model": width, "d_kv": width // heads, "d_ff": 2 * width, "num_layers": layers, "num_heads": heads}
        return T5ForConditionalGeneration(T5Config(**ids, **shape, dropout_rate=0.0, decoder_start_token_id=0))
    sides = {"layers": layers, "attention_heads": heads, "ffn_dim": 2 * width}
    shape = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sides.items()}
    ends = {"decoder_start_token_id": 0, "forced_eos_token_id": None, "bos_token_id": None}
    more = {"d_model": width, "max_position_embeddings": 256, "dropout": 0.0, "scale_embedding": True}
    return MarianMTModel(MarianConfig(**ids, **shape, **ends, **more))


class Task:
    """The data of a corpus for one architecture."""

    def __init__(self, data: Path, corpus: str, architecture: str, sizes: Sizes) -> None:
        self.sizes, self.architecture = sizes, architecture
        train = read_pairs(data, corpus, "train")
        self.tokenizer = train_tokenizer(train, sizes.vocabulary)
        short = [pair for pair in train if max(len(side.split()) for side in pair) <= sizes.longest]
        self.features = [self.encode(pair) for pair in short]
        self.held_out = {part: read_pairs(data, corpus, part)[: sizes.held_out] for part in ("valid", "test")}

    def encode(self, pair: tuple[str, str]) -> dict[str, Any]:
        if self.architecture == "gpt2":
            return encode_completion(self.tokenizer, pair[0], pair[1])
        encoded = self.tokenizer(pair[0], text_target=pair[1])
        return {name: encoded[name] for name in ("input_ids", "attention_mask", "labels")}

    def batches(self, model: Any, seed: int) -> Iterator[Any]:
        """Endless batches of sentences of similar length."""
        draw, collate, size = random.Random(seed), BLEUCollator(self.tokenizer, model), self.sizes.batch
        while True:
            order = draw.sample(range(len(self.features)), len(self.features))
            for first in range(0, len(order) - 20 * size + 1, 20 * size):
                pool = sorted(order[first : first + 20 * size], key=lambda index: len(self.features[index]["labels"]))
                for start in draw.sample(range(0, len(pool), size), 20):
                    yield collate([self.features[index] for index in pool[start : start + size]])

    @torch.no_grad()
    def translate(self, model: Any, part: str) -> list[str]:
        """Greedy translations."""
        pairs, outputs = self.held_out[part], {}
        order = sorted(range(len(pairs)), key=lambda index: len(pairs[index][0]))
        model.eval()
        for first in range(0, len(order), 250):
            chunk = order[first : first + 250]
            inputs = self.tokenizer([pairs[index][0] for index in chunk], padding=True, return_tensors="pt")
            inputs.pop("token_type_ids", None)
            if self.architecture == "gpt2":  # the prompt ends without EOS
                inputs = {name: value[:, :-1] for name, value in inputs.items()}
            ids = model.generate(**inputs, max_new_tokens=self.sizes.limit, num_beams=1, do_sample=False)
            if self.architecture == "gpt2":
                ids = ids[:, inputs["input_ids"].shape[1] :]
            outputs |= zip(chunk, self.tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True)
        return [outputs[index] for index in range(len(pairs))]

    def score(self, model: Any, part: str) -> tuple[float, float, list[list[int]]]:
        """BLEU, 0 to 100, words of the output over words of the reference, and the statistics of each sentence."""
        outputs, references = self.translate(model, part), [target for _, target in self.held_out[part]]
        score = SCORER.corpus_score(outputs, [references])
        statistics = SCORER._extract_corpus_statistics(outputs, [references])
        return score.score, score.sys_len / score.ref_len, statistics
