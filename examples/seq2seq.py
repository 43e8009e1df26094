"""Shared by the examples of encoder-decoder models: sizes of small models, loading, the trainer and the score."""

import argparse
from collections.abc import Callable, Sized

from corpus import train_tokenizer, trainer_options
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from bleugrad.hf import BLEUCollator, BLEULoss, BLEUMetrics, BLEUSchedule

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
"""Sizes of small BART-like models."""


def tokenizer_and_model(
    name: str | None, lines: list[str], small_model: Callable[[PreTrainedTokenizerBase], PreTrainedModel]
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    """Those of a pretrained model, or new ones: a tokenizer trained on the lines, and a small model for it."""
    if name:
        return AutoTokenizer.from_pretrained(name), AutoModelForSeq2SeqLM.from_pretrained(name)
    tokenizer = train_tokenizer(lines)
    return tokenizer, small_model(tokenizer)


def train_and_score(
    chosen: argparse.Namespace,
    tokenizer: PreTrainedTokenizerBase,
    model: PreTrainedModel,
    *,
    train_dataset: Sized,
    eval_dataset: list[dict],
    loss: BLEULoss,
    schedule: BLEUSchedule,
    references: list[list[str]] | None = None,
    **more: object,
) -> float:
    """Train with a constant learning rate, generate translations and return their BLEU. Nothing is saved."""
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            chosen.output,
            per_device_eval_batch_size=50,
            predict_with_generate=True,
            **trainer_options(chosen),
            **more,
        ),
        train_dataset=train_dataset,
        eval_dataset=eval_dataset,
        data_collator=BLEUCollator(tokenizer, model),
        processing_class=tokenizer,
        compute_loss_func=loss,
        compute_metrics=BLEUMetrics(tokenizer, size=len(eval_dataset), references=references, tokenize="none"),
        callbacks=[schedule],
    )
    trainer.train()
    score = trainer.evaluate()["eval_bleu"]
    print(f"BLEU {score:.1f}")
    return score
