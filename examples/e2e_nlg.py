"""Data to text with several references a sentence: BLEU against all of them, as it is measured.

python examples/e2e_nlg.py                                  # a small new model on made-up facts: a minute
python examples/e2e_nlg.py --data DIR/e2e_nlg --steps 2000  # the E2E NLG corpus
python examples/e2e_nlg.py --model facebook/bart-base --data DIR/e2e_nlg    # needs a network
"""

import random

from corpus import described_places, options, train_tokenizer
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

from bleugrad.hf import BLEUCollator, BLEULoss, BLEUMetrics, BLEUSchedule


def small_model(tokenizer) -> BartForConditionalGeneration:
    config = BartConfig(
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
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        forced_eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.eos_token_id,
    )
    return BartForConditionalGeneration(config)


class OneOfTheReferences:
    """The training data: the decoder is fed one reference, drawn anew each time; BLEU is measured against all."""

    def __init__(self, tokenizer, places: list[tuple[str, list[str]]]) -> None:
        self.rows = []
        for facts, texts in places:
            encoded = tokenizer(facts)
            references = tokenizer(text_target=texts)["input_ids"]
            self.rows.append((encoded["input_ids"], encoded["attention_mask"], references))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict:
        ids, mask, references = self.rows[index]
        labels = random.choice(references)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels, "references": references}


def main() -> float:
    chosen = options(__doc__.splitlines()[0], steps=400, needs_data="train.multi.src.gz, ... of E2E NLG").parse_args()
    set_seed(0)
    train, test = described_places(chosen.data)
    if chosen.model:
        tokenizer = AutoTokenizer.from_pretrained(chosen.model)
        model = AutoModelForSeq2SeqLM.from_pretrained(chosen.model)
    else:
        tokenizer = train_tokenizer([line for facts, texts in train for line in [facts, *texts]])
        model = small_model(tokenizer)

    loss = BLEULoss(model, tokenizer, words=True)
    references = [texts for _, texts in test]
    evaluation = [
        dict(tokenizer(facts)) | {"labels": tokenizer(text_target=texts[0])["input_ids"]} for facts, texts in test
    ]
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            chosen.output,
            max_steps=chosen.steps,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=50,
            learning_rate=2e-5 if chosen.model else 2e-3,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=chosen.steps // 10,
            predict_with_generate=True,
            generation_max_length=64,
            logging_steps=max(chosen.steps // 8, 1),
            remove_unused_columns=False,  # keeps the references
            save_strategy="no",
            report_to="none",
        ),
        train_dataset=OneOfTheReferences(tokenizer, train),
        eval_dataset=evaluation,
        data_collator=BLEUCollator(tokenizer, model),
        processing_class=tokenizer,
        compute_loss_func=loss,
        compute_metrics=BLEUMetrics(tokenizer, size=len(test), references=references, tokenize="none"),
        callbacks=[BLEUSchedule(loss, after_steps=2 * chosen.steps // 3)],
    )
    trainer.train()
    score = trainer.evaluate()["eval_bleu"]
    print(f"BLEU {score:.1f}")
    return score


if __name__ == "__main__":
    main()
