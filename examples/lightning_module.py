"""A LightningModule that trains on expected BLEU, pooled over the devices Lightning uses.

python examples/lightning_module.py
python examples/lightning_module.py --devices 2
"""

import lightning
import torch
import torch.distributed as dist
from corpus import options
from t5 import new_model_and_batches

import bleugrad


class Translator(lightning.LightningModule):
    """Cross-entropy plus expected BLEU of words, with a weight that rises as the model learns."""

    def __init__(self, model, tokenizer) -> None:
        super().__init__()
        self.model = model
        self.end = tokenizer.eos_token_id
        self.word_start = bleugrad.word_start_mask(tokenizer, size=model.config.vocab_size)
        self.criterion: torch.nn.Module | None = None

    def setup(self, stage: str) -> None:
        several = dist.is_available() and dist.is_initialized()  # Lightning has made the processes by now
        self.criterion = bleugrad.ExpectedBLEULoss.recommended(
            eos_id=self.end, word_start=self.word_start, process_group=dist.group.WORLD if several else None
        )

    def training_step(self, batch: dict, index: int) -> torch.Tensor:
        loss = self.criterion(self.model(**batch).logits, batch["labels"])
        self.log("loss", loss, batch_size=len(batch["labels"]))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def main() -> float:
    parser = options(__doc__.splitlines()[0], steps=400, needs_data="train.de.gz, train.en.gz and valid.*")
    parser.add_argument("--devices", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.model:
        parser.error("--model: this example trains a new model")
    lightning.seed_everything(0)
    tokenizer, model, loader = new_model_and_batches(chosen.data, batch_size=32)
    trainer = lightning.Trainer(
        accelerator="auto" if torch.cuda.is_available() else "cpu",
        devices=chosen.devices,
        strategy="auto" if chosen.devices == 1 else "ddp",
        max_steps=chosen.steps,
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(Translator(model, tokenizer), loader)
    loss = trainer.callback_metrics["loss"].item()
    if trainer.is_global_zero:
        print(f"loss {loss:.4f}")
    return loss


if __name__ == "__main__":
    main()
