"""Fine-tune a T5-style model with a blend of both losses, without ever holding the logits of a batch.

python examples/t5.py                                        # a small new model on made-up sentences: a minute
python examples/t5.py --model google-t5/t5-small --data DIR  # needs a network
"""

from pathlib import Path

from corpus import encode_pairs, of_tokenizer, options, train_tokenizer, translation_pairs
from seq2seq import tokenizer_and_model, train_and_score
from torch.utils.data import DataLoader
from transformers import T5Config, T5ForConditionalGeneration, set_seed

from bleugrad.hf import BLEUCollator, BLEULoss, BLEUSchedule

PREFIX = "translate German to English: "
SIZES = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}


def small_model(tokenizer) -> T5ForConditionalGeneration:
    start = tokenizer.pad_token_id
    return T5ForConditionalGeneration(T5Config(**SIZES, **of_tokenizer(tokenizer), decoder_start_token_id=start))


def main() -> float:
    chosen = options(__doc__.splitlines()[0], steps=400, needs_data="train.de.gz, train.en.gz and valid.*").parse_args()
    set_seed(0)
    train, test = translation_pairs(chosen.data)
    if chosen.model:
        train, test = ([(PREFIX + source, target) for source, target in part] for part in (train, test))
    tokenizer, model = tokenizer_and_model(chosen.model, [line for pair in train for line in pair], small_model)

    loss = BLEULoss(model, tokenizer, fused=True)
    blend = BLEUSchedule(loss, after_steps=chosen.steps // 4, over=chosen.steps // 2)
    data = {"train_dataset": encode_pairs(tokenizer, train), "eval_dataset": encode_pairs(tokenizer, test)}
    sizes = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 2, "generation_max_length": 32}
    rate = 1e-4 if chosen.model else 3e-3
    return train_and_score(chosen, tokenizer, model, loss=loss, schedule=blend, learning_rate=rate, **data, **sizes)


def new_model_and_batches(data: Path | None, batch_size: int):
    """A tokenizer, a small new model, and a loader of training batches."""
    train, _ = translation_pairs(data)
    tokenizer = train_tokenizer([line for pair in train for line in pair])
    model = small_model(tokenizer)
    loader = DataLoader(
        encode_pairs(tokenizer, train),
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
        collate_fn=BLEUCollator(tokenizer, model),
    )
    return tokenizer, model, loader


if __name__ == "__main__":
    main()
