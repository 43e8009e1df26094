"""TRL's supervised fine-tuning on expected BLEU."""

from typing import Any

from trl.trainer.sft_trainer import SFTTrainer

from bleugrad.hf.loss import BLEULoss


class BLEUSFTTrainer(SFTTrainer):
    """``SFTTrainer`` that trains on ``bleu_loss`` and logs its values. The rest is TRL's.

    Turn packing and padding-free batches off: n-grams must not cross sentences. For other options than the recommended
    ones, set ``trainer.bleu_loss = BLEULoss(trainer.model, tokenizer, ...)``.
    """

    bleu_loss: BLEULoss | None = None

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The loss of a micro-batch, scaled as the trainer scales its own."""
        if self.compute_loss_func is not None or getattr(self.args, "loss_type", "nll") == "dft":
            raise ValueError("compute_loss_func or loss_type='dft' is given; set bleu_loss, this trainer's only loss")
        if self.bleu_loss is None:
            own, smoothing = self.accelerator.unwrap_model(self.model), self.args.label_smoothing_factor
            self.bleu_loss = BLEULoss(own, self.processing_class, label_smoothing=smoothing)
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels"}, use_cache=False)
        loss = self.bleu_loss(outputs, inputs["labels"], num_items_in_batch)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], *args: Any, **options: Any) -> None:
        """Log the values, and those of :class:`bleugrad.hf.BLEUMonitor` beside the training loss."""
        if "loss" in logs and self.bleu_loss is not None:
            logs.update(self.bleu_loss.measurements())
        super().log(logs, *args, **options)
