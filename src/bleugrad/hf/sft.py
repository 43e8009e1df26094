"""TRL's supervised fine-tuning on expected BLEU."""

from typing import Any

from torch import Tensor
from trl.trainer.sft_trainer import SFTTrainer

from bleugrad.hf.loss import BLEULoss


class BLEUSFTTrainer(SFTTrainer):
    """``SFTTrainer`` that trains on ``bleu_loss`` and logs its values. The rest is TRL's.

    With prompt-completion data only the completion has labels. Turn packing and padding-free batches off: n-grams must
    not cross sentences.

    Example::

        trainer = BLEUSFTTrainer(model=model, args=SFTConfig(...), train_dataset=data, processing_class=tokenizer)
        trainer.bleu_loss = BLEULoss(trainer.model, tokenizer, level="corpus")  # the default is the recommended recipe
    """

    bleu_loss: BLEULoss | None = None

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The loss of a micro-batch, scaled as the trainer scales its own."""
        if self.compute_loss_func is not None or getattr(self.args, "loss_type", "nll") == "dft":
            raise ValueError(
                "compute_loss_func or loss_type='dft' is given; set bleu_loss, the only loss of this trainer"
            )
        if self.bleu_loss is None:
            model_of_loss, smoothing = self.accelerator.unwrap_model(self.model), self.args.label_smoothing_factor
            self.bleu_loss = BLEULoss(model_of_loss, self.processing_class, label_smoothing=smoothing)
        labels = inputs["labels"]
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels"}, use_cache=False)
        loss = self.bleu_loss(outputs, labels, num_items_in_batch)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], *args: Any, **options: Any) -> None:
        """Log the values, and those of :class:`bleugrad.hf.BLEUMonitor` beside the training loss."""
        if "loss" in logs and self.bleu_loss is not None:
            logs.update(self.bleu_loss.measurements())
        super().log(logs, *args, **options)
