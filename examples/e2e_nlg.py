"""Data to text with several references per sentence: BLEU against all of them, as it is measured.

python examples/e2e_nlg.py                                  # a small new model on made-up facts: a minute
python examples/e2e_nlg.py --data DIR/e2e_nlg --steps 2000  # the E2E NLG corpus
python examples/e2e_nlg.py --model facebook/bart-base --data DIR/e2e_nlg    # needs a network
"""

import random

from corpus import described_places, of_tokenizer, options
from seq2seq import SIZES, tokenizer_and_model, train_and_score
from transformers import BartConfig, BartForConditionalGeneration, set_seed

from bleugrad.hf import BLEULoss, BLEUSchedule


def small_model(tokenizer) -> BartForConditionalGeneration:
    ends = ("bos_token_id", "forced_eos_token_id", "decoder_start_token_id")
    config = BartConfig(**SIZES, **of_tokenizer(tokenizer), **dict.fromkeys(ends, tokenizer.eos_token_id))
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
    lines = [line for facts, texts in train for line in [facts, *texts]]
    tokenizer, model = tokenizer_and_model(chosen.model, lines, small_model)

    loss = BLEULoss(model, tokenizer)
    references = [texts for _, texts in test]
    evaluation = [
        dict(tokenizer(facts)) | {"labels": tokenizer(text_target=texts[0])["input_ids"]} for facts, texts in test
    ]
    return train_and_score(
        chosen,
        tokenizer,
        model,
        train_dataset=OneOfTheReferences(tokenizer, train),
        eval_dataset=evaluation,
        loss=loss,
        schedule=BLEUSchedule(loss, after_steps=2 * chosen.steps // 3),
        references=references,
        learning_rate=2e-5 if chosen.model else 2e-3,
        per_device_train_batch_size=16,
        generation_max_length=64,
        remove_unused_columns=False,  # keeps the references
    )


if __name__ == "__main__":
    main()
