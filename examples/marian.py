"""Fine-tune a Marian-style translation model: cross-entropy first, then expected BLEU of words.

python examples/marian.py                                    # a small new model on made-up sentences: a minute
python examples/marian.py --model Helsinki-NLP/opus-mt-de-en --data DIR     # needs a network
"""

from corpus import encode_pairs, of_tokenizer, options, translation_pairs
from seq2seq import SIZES, tokenizer_and_model, train_and_score
from transformers import MarianConfig, MarianMTModel, set_seed

from bleugrad.hf import BLEULoss, BLEUSchedule


def small_model(tokenizer) -> MarianMTModel:
    ends = {"forced_eos_token_id": tokenizer.eos_token_id, "decoder_start_token_id": tokenizer.pad_token_id}
    return MarianMTModel(MarianConfig(**SIZES, **of_tokenizer(tokenizer), **ends))


def main() -> float:
    chosen = options(__doc__.splitlines()[0], steps=400, needs_data="train.de.gz, train.en.gz and valid.*").parse_args()
    set_seed(0)
    train, test = translation_pairs(chosen.data)
    tokenizer, model = tokenizer_and_model(chosen.model, [line for pair in train for line in pair], small_model)

    loss = BLEULoss(model, tokenizer)
    return train_and_score(
        chosen,
        tokenizer,
        model,
        train_dataset=encode_pairs(tokenizer, train),
        eval_dataset=encode_pairs(tokenizer, test),
        loss=loss,
        schedule=BLEUSchedule(loss, after_steps=chosen.steps // 2),
        learning_rate=1e-5 if chosen.model else 2e-3,
        per_device_train_batch_size=32,
        generation_max_length=32,
    )


if __name__ == "__main__":
    main()
