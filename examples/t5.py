"""Fine-tune a T5-style model with a blend of both losses, without ever holding the logits of a batch.

python examples/t5.py                                        # a small new model on made-up sentences: a minute
python examples/t5.py --model google-t5/t5-small --data DIR  # needs a network
"""

from corpus import encode_pairs, options, train_tokenizer, translation_pairs
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    set_seed,
)

from bleugrad.hf import BLEUCollator, BLEULoss, BLEUMetrics, BLEUSchedule

PREFIX = "translate German to English: "


def small_model(tokenizer) -> T5ForConditionalGeneration:
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    return T5ForConditionalGeneration(config)


def main() -> float:
    chosen = options(__doc__.splitlines()[0], steps=400, needs_data="train.de.gz, train.en.gz and valid.*").parse_args()
    set_seed(0)
    train, test = translation_pairs(chosen.data)
    if chosen.model:
        tokenizer = AutoTokenizer.from_pretrained(chosen.model)
        model = AutoModelForSeq2SeqLM.from_pretrained(chosen.model)
        train, test = ([(PREFIX + source, target) for source, target in part] for part in (train, test))
    else:
        tokenizer = train_tokenizer([line for pair in train for line in pair])
        model = small_model(tokenizer)

    loss = BLEULoss(model, tokenizer, words=True, fused=True)
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            chosen.output,
            max_steps=chosen.steps,
            per_device_train_batch_size=16,
            gradient_accumulation_steps=2,
            per_device_eval_batch_size=50,
            learning_rate=1e-4 if chosen.model else 3e-3,
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
        callbacks=[BLEUSchedule(loss, after_steps=chosen.steps // 4, over=chosen.steps // 2)],
    )
    trainer.train()
    score = trainer.evaluate()["eval_bleu"]
    print(f"BLEU {score:.1f}")
    return score


if __name__ == "__main__":
    main()
