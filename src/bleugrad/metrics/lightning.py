"""The metrics as a callback of Lightning."""

from typing import Any

import lightning
from torch import Tensor

from bleugrad.metrics.scores import ExpectedScore, TokenScore


class BLEUCallback(lightning.Callback):
    """Logs ``val_expected_bleu``, its interval, ``val_length_ratio`` and ``val_bleu`` after each validation.

    ``validation_step`` returns a dict: ``logits`` (B, T, V) with ``labels`` (B, T) for expected BLEU, and generated
    ``tokens`` (B, S) with ``labels`` for the BLEU of token ids. Each value is logged if its inputs are there.
    ``eos_id`` and ``word_start`` are those of :class:`bleugrad.metrics.ExpectedScore`.

    Example::

        class Translator(lightning.LightningModule):
            def validation_step(self, batch, index):
                return {"logits": self.model(**batch).logits, "labels": batch["labels"]}


        lightning.Trainer(callbacks=[BLEUCallback(eos_id=tokenizer.eos_token_id)])
    """

    def __init__(self, *, eos_id: int | None = None, word_start: Tensor | None = None) -> None:
        self.expected = ExpectedScore(eos_id=eos_id, word_start=word_start)
        self.tokens = TokenScore(eos_id=eos_id, word_start=word_start)

    def on_validation_epoch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Reset both metrics, on the device of the module."""
        for metric in (self.expected, self.tokens):
            metric.reset()
            metric.to(pl_module.device)

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any, **__: Any) -> None:
        """Add the output of a validation step."""
        if not isinstance(outputs, dict) or "labels" not in outputs or not {"logits", "tokens"} & set(outputs):
            found = sorted(outputs) if isinstance(outputs, dict) else type(outputs).__name__
            raise TypeError(f"validation_step returned {found}; expected a dict with labels, and with logits or tokens")
        if "logits" in outputs:
            self.expected.update(outputs["logits"], outputs["labels"])
        if "tokens" in outputs:
            self.tokens.update(outputs["tokens"], outputs["labels"])

    def on_validation_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Log the values."""
        if self.expected.update_called:
            names = {"score": "expected_bleu", "lower": "expected_bleu_lower", "upper": "expected_bleu_upper"}
            found = self.expected.compute().items()
            pl_module.log_dict({f"val_{names.get(name, name)}": value.float() for name, value in found})
        if self.tokens.update_called:
            pl_module.log("val_bleu", self.tokens.compute().float())
