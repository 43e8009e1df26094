"""What the examples of encoder-decoder models share: sizes of small models, loading, arguments, training and score."""

import argparse
from collections.abc import Callable

from corpus import train_tokenizer
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

SIZES = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 128,
    "dropout": 0.0,
    "init_std": 0.1,
}
"""Of small BART-like models."""


def of_tokenizer(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Settings of a new model that the tokenizer decides."""
    return {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }


def tokenizer_and_model(
    name: str | None, lines: list[str], small_model: Callable[[PreTrainedTokenizerBase], PreTrainedModel]
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    """Those of a pretrained model, or new ones: a tokenizer trained on the lines, and a small model for it."""
    if name:
        return AutoTokenizer.from_pretrained(name), AutoModelForSeq2SeqLM.from_pretrained(name)
    tokenizer = train_tokenizer(lines)
    return tokenizer, small_model(tokenizer)


def arguments(chosen: argparse.Namespace, **more: object) -> Seq2SeqTrainingArguments:
    """Of the trainer: a constant learning rate, translations generated for the score, nothing saved."""
    return Seq2SeqTrainingArguments(
        chosen.output,
        max_steps=chosen.steps,
        per_device_eval_batch_size=50,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=chosen.steps // 10,
        predict_with_generate=True,
        logging_steps=max(chosen.steps // 8, 1),
        save_strategy="no",
        report_to="none",
        **more,
    )


def train_and_score(trainer: Seq2SeqTrainer) -> float:
    trainer.train()
    score = trainer.evaluate()["eval_bleu"]
    print(f"BLEU {score:.1f}")
    return score
