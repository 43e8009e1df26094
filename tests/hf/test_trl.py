"""TRL: supervised fine-tuning on expected BLEU, and BLEU as a reward."""

import warnings

import pytest

pytest.importorskip("trl")

from bleugrad.hf import BLEULoss, bleu_reward
from tests.hf.models import END, LINES, PLAIN, encode_pairs, gradients, make_model, make_tokenizer
from tests.hf.oracle import step_loss

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trl():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries while they are imported
        import datasets
        import trl
        from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: F401

        from bleugrad.hf import BLEUSFTTrainer  # noqa: F401
    return trl, datasets


QUIET = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "save_strategy": "no", "bf16": False}


def fine_tuning(trl, folder, given=None, **options):
    """A trainer in double precision with SGD and learning rate 1, and its model: the update is the gradient."""
    from bleugrad.hf import BLEUSFTTrainer

    trl, datasets = trl
    rows = [{"prompt": a, "completion": " " + b} for a, b in zip(LINES, [*LINES[1:], LINES[0]], strict=True)]
    config = trl.SFTConfig(
        output_dir=str(folder),
        optim="sgd",
        learning_rate=1.0,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        max_steps=1,
        logging_steps=1,
        per_device_train_batch_size=3,
        gradient_accumulation_steps=3,
        gradient_checkpointing=False,
        **QUIET,
        **options,
    )
    data = {"train_dataset": datasets.Dataset.from_list(rows), "processing_class": make_tokenizer()}
    return BLEUSFTTrainer(model=make_model("GPT-2"), args=config, **data, **given or {})


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_of_fine_tuning_is_that_of_one_big_batch(trl, tmp_path, fused):
    trainer = fine_tuning(trl, tmp_path)
    before = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    trainer.bleu_loss = BLEULoss(trainer.model, make_tokenizer(), fused=fused, **PLAIN)
    trainer.train()
    wanted = make_model("GPT-2")
    value = step_loss(wanted, encode_pairs(), eos_id=END)
    value.backward()
    for name, grad in gradients(wanted).items():
        step = before[name] - dict(trainer.model.named_parameters())[name].detach()
        assert (step - grad).abs().max() < 1e-12, name
    logged = trainer.state.log_history[0]
    assert logged["expected_bleu"] == pytest.approx(1 - value.item())
    assert {"expected_bleu_low", "cross_entropy", "length_ratio"} <= set(logged)


def test_the_default_loss_of_fine_tuning_has_the_label_smoothing_of_the_trainer(trl, tmp_path):
    with pytest.warns(FutureWarning, match="label_smoothing_factor"):  # of TRL
        trainer = fine_tuning(trl, tmp_path, label_smoothing_factor=0.2)
    trainer.train()
    assert trainer.bleu_loss.label_smoothing == 0.2
    assert trainer.bleu_loss.adaptive


@pytest.mark.parametrize("other", ["compute_loss_func", "loss_type"])
def test_another_loss_of_fine_tuning_is_refused(trl, tmp_path, other):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of TRL
        if other == "loss_type":
            trainer = fine_tuning(trl, tmp_path, loss_type="dft")
        else:
            trainer = fine_tuning(trl, tmp_path, {"compute_loss_func": lambda *_, **__: None})
    with pytest.raises(ValueError, match="compute_loss_func or loss_type='dft' is given; set bleu_loss"):
        trainer.train()


def test_grpo_takes_the_reward(trl, tmp_path):
    trl, datasets = trl
    rows = [{"prompt": a, "reference": b} for a, b in zip(LINES, [*LINES[1:], LINES[0]], strict=True)]
    config = trl.GRPOConfig(
        output_dir=str(tmp_path),
        max_steps=1,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=6,
        gradient_checkpointing=False,
        logging_steps=1,
        **QUIET,
    )
    trainer = trl.GRPOTrainer(
        model=make_model("GPT-2").float(),
        reward_funcs=bleu_reward,
        args=config,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=make_tokenizer("left"),
    )
    trainer.train()
    logged = trainer.state.log_history[0]
    assert 0 <= logged["rewards/bleu_reward/mean"] <= 1
