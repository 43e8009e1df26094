"""Fine-tune a GPT-style model to complete prompts, on the expected BLEU of the completion.

python examples/gpt.py                                  # a small new model on made-up sentences: a minute
python examples/gpt.py --model openai-community/gpt2 --data DIR             # needs a network
"""

import sacrebleu
import torch
from corpus import of_tokenizer, options, train_tokenizer, trainer_options, translation_pairs
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    set_seed,
)

from bleugrad.hf import BLEUCollator, BLEULoss, BLEUSchedule, encode_completion


def small_model(tokenizer) -> GPT2LMHeadModel:
    sizes = {"n_positions": 128, "n_embd": 64, "n_layer": 2, "n_head": 4}
    dropouts = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = GPT2Config(**sizes, **dropouts, **of_tokenizer(tokenizer), bos_token_id=tokenizer.eos_token_id)
    return GPT2LMHeadModel(config)


@torch.no_grad()
def complete(model, tokenizer, prompts: list[str]) -> list[str]:
    """Greedy completions; prompts are padded on the left, so that all end at the same place."""
    model.eval()
    texts = []
    for first in range(0, len(prompts), 50):
        batch = tokenizer(prompts[first : first + 50], return_tensors="pt", padding=True, return_token_type_ids=False)
        ids = model.generate(
            **batch.to(model.device), max_new_tokens=32, do_sample=False, pad_token_id=tokenizer.pad_token_id
        )
        texts += tokenizer.batch_decode(ids[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    return [text.strip() for text in texts]


def main() -> float:
    chosen = options(__doc__.splitlines()[0], steps=500, needs_data="train.de.gz, train.en.gz and valid.*").parse_args()
    set_seed(0)
    train, test = translation_pairs(chosen.data)
    if chosen.model:
        tokenizer = AutoTokenizer.from_pretrained(chosen.model, padding_side="left")
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        model = AutoModelForCausalLM.from_pretrained(chosen.model)
    else:
        tokenizer = train_tokenizer([line for pair in train for line in pair], end=False)
        tokenizer.padding_side = "left"
        model = small_model(tokenizer)

    loss = BLEULoss(model, tokenizer)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            chosen.output,
            per_device_train_batch_size=32,
            learning_rate=3e-5 if chosen.model else 3e-3,
            **trainer_options(chosen),
        ),
        train_dataset=[encode_completion(tokenizer, f"{source} =", f" {target}") for source, target in train],
        data_collator=BLEUCollator(tokenizer, model),
        compute_loss_func=loss,
        callbacks=[BLEUSchedule(loss, after_steps=2 * chosen.steps // 3)],
    )
    trainer.train()
    outputs = complete(model, tokenizer, [f"{source} =" for source, _ in test])
    score = sacrebleu.corpus_bleu(outputs, [[target for _, target in test]], tokenize="none", force=True).score
    print(f"BLEU {score:.1f}")
    return score


if __name__ == "__main__":
    main()
