"""The Lightning callback logs the values of the metrics, in a real trainer."""

import warnings

import pytest
import torch

lightning = pytest.importorskip("lightning")

from bleugrad.metrics import BLEUCallback, ExpectedScore, TokenScore  # noqa: E402
from tests.metrics.test_metrics import EOS, case, guesses  # noqa: E402


class Fixed(lightning.LightningModule):
    """A module whose outputs are the batch."""

    def __init__(self, names):
        super().__init__()
        self.names = names

    def validation_step(self, batch, index):
        logits, labels = batch
        found = {"logits": logits, "labels": labels, "tokens": guesses(logits, labels)}
        return {name: found[name] for name in self.names}


def validate(names, callback):
    trainer = lightning.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, callbacks=[callback]
    )
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*case()), batch_size=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the number of workers, and about checkpoints it does not write
        trainer.validate(Fixed(names), loader, verbose=False)
    return {name: value.item() for name, value in trainer.callback_metrics.items()}


def test_the_callback_logs_both_metrics():
    logits, labels = case()
    expected, tokens = ExpectedScore(eos_id=EOS), TokenScore()
    expected.update(logits, labels)
    made = guesses(logits, labels)
    tokens.update(*(ids.masked_fill((ids == EOS).cumsum(1) > 0, -100) for ids in (made, labels)))
    assert tokens.compute() > 0.1
    found = validate(["logits", "labels", "tokens"], BLEUCallback(eos_id=EOS))
    wanted = expected.compute()
    assert found == pytest.approx(
        {
            "val_expected_bleu": wanted["score"].item(),
            "val_expected_bleu_lower": wanted["lower"].item(),
            "val_expected_bleu_upper": wanted["upper"].item(),
            "val_length_ratio": wanted["length_ratio"].item(),
            "val_bleu": tokens.compute().item(),
        },
        rel=1e-6,
    )


def test_only_what_the_step_returns_is_logged():
    assert set(validate(["tokens", "labels"], BLEUCallback())) == {"val_bleu"}


def test_a_step_without_labels_is_an_error():
    with pytest.raises(TypeError, match=r"validation_step returned \['logits'\]; expected a dict with labels"):
        validate(["logits"], BLEUCallback())
