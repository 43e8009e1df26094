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


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_of_fine_tuning_is_that_of_one_big_batch(trl, tmp_path, fused):
    trl, datasets = trl
    from bleugrad.hf import BLEUSFTTrainer

    rows = [{"prompt": a, "completion": " " + b} for a, b in zip(LINES, [*LINES[1:], LINES[0]], strict=True)]
    model, tokenizer = make_model("GPT-2"), make_tokenizer()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    config = trl.SFTConfig(
        output_dir=str(tmp_path),
        optim="sgd",
        learning_rate=1.0,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        max_steps=1,
        per_device_train_batch_size=3,
        gradient_accumulation_steps=3,
        gradient_checkpointing=False,
        **QUIET,
    )
    trainer = BLEUSFTTrainer(
        model=model, args=config, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer
    )
    trainer.bleu_loss = BLEULoss(trainer.model, tokenizer, fused=fused, **PLAIN)
    trainer.train()
    wanted = make_model("GPT-2")
    step_loss(wanted, encode_pairs(), eos_id=END).backward()
    for name, grad in gradients(wanted).items():
        step = before[name] - dict(model.named_parameters())[name].detach()
        assert (step - grad).abs().max() < 1e-12, name


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
