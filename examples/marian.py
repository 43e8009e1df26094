"""Fine-tune a Marian-style translation model: cross-entropy first, then expected BLEU of words.

python examples/marian.py                                    # a small new model on made-up sentences: a minute
python examples/marian.py --model Helsinki-NLP/opus-mt-de-en --data DIR     # needs a network
"""

from corpus import encode_pairs, options, train_tokenizer, translation_pairs
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    MarianConfig,
    MarianMTModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

from bleugrad.hf import BLEUCollator, BLEULoss, BLEUMetrics, BLEUSchedule


def small_model(tokenizer) -> MarianMTModel:
    config = MarianConfig(
        vocab_size=len(tokenizer),
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_position_embeddings=128,
        dropout=0.0,
        init_std=0.1,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        forced_eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    return MarianMTModel(config)


def main() -> float:
    chosen = options(__doc__.splitlines()[0], steps=400, needs_data="train.de.gz, train.en.gz and valid.*").parse_args()
    set_seed(0)
    train, test = translation_pairs(chosen.data)
    if chosen.model:
        tokenizer = AutoTokenizer.from_pretrained(chosen.model)
        model = AutoModelForSeq2SeqLM.from_pretrained(chosen.model)
    else:
        tokenizer = train_tokenizer([line for pair in train for line in pair])
        model = small_model(tokenizer)

    loss = BLEULoss(model, tokenizer, words=True)
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            chosen.output,
            max_steps=chosen.steps,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=50,
            learning_rate=1e-5 if chosen.model else 2e-3,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=chosen.steps // 10,
            predict_with_generate=True,
            generation_max_length=32,
            logging_steps=max(chosen.steps // 8, 1),
            save_strategy="no",
            report_to="none",
        ),
        train_dataset=encode_pairs(tokenizer, train),
        eval_dataset=encode_pairs(tokenizer, test),
        data_collator=BLEUCollator(tokenizer, model),
        processing_class=tokenizer,
        compute_loss_func=loss,
        compute_metrics=BLEUMetrics(tokenizer, size=len(test), tokenize="none"),
        callbacks=[BLEUSchedule(loss, after_steps=chosen.steps // 2)],
    )
    trainer.train()
    score = trainer.evaluate()["eval_bleu"]
    print(f"BLEU {score:.1f}")
    return score


if __name__ == "__main__":
    main()
