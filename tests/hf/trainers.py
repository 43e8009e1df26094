"""One step of a Hugging Face trainer in double precision with SGD and learning rate 1: the update is the gradient."""

import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainerCallback, TrainingArguments  # noqa: F401

from bleugrad.hf import BLEUCollator, BLEULoss, SentenceMean
from tests.hf.models import PLAIN, ROUNDING, make_model, make_tokenizer


class SentenceTrainer(SentenceMean, Trainer):
    pass


class SentenceSeq2SeqTrainer(SentenceMean, Seq2SeqTrainer):
    pass


def arguments(folder, kind=TrainingArguments, **options):
    settings = {
        "optim": "sgd",
        "learning_rate": 1.0,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "max_steps": 1,
        "logging_steps": 1,
        "logging_strategy": "steps",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 1,
        "remove_unused_columns": False,
        "ddp_find_unused_parameters": False,
    }
    return kind(output_dir=str(folder), **settings | options)


def make_trainer(folder, model, *, trainer=Trainer, loss=None, tokenizer=None, given=None, **options):
    """A trainer on expected BLEU. ``model`` may be a name, ``given`` goes to the trainer, options to its arguments."""
    model, tokenizer = make_model(model) if isinstance(model, str) else model, tokenizer or make_tokenizer()
    kind = Seq2SeqTrainingArguments if issubclass(trainer, Seq2SeqTrainer) else TrainingArguments
    settings = {
        "data_collator": BLEUCollator(tokenizer, model),
        "processing_class": tokenizer,
        "compute_loss_func": loss or BLEULoss(model, tokenizer),
    }
    run = trainer(model=model, args=arguments(folder, kind, **options), **settings | (given or {}))
    run._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(run.train_dataset)
    return run


def one_step(folder, name, rows, *, trainer=Trainer, loss_options=None, tokenizer=None, **options):
    """What one step subtracted from each parameter, and the loss of the trainer."""
    model, tokenizer = make_model(name), tokenizer or make_tokenizer()
    before = {key: parameter.detach().clone() for key, parameter in model.named_parameters()}
    loss = BLEULoss(model, tokenizer, **PLAIN | (loss_options or {}))
    run = make_trainer(
        folder, model, trainer=trainer, loss=loss, tokenizer=tokenizer, given={"train_dataset": rows}, **options
    )
    loss = run.train().training_loss  # the log rounds it in transformers 4
    steps = {key: before[key] - parameter.detach() for key, parameter in model.named_parameters()}
    return steps, loss


def assert_step(found, wanted, tolerance=ROUNDING):
    """``wanted`` is a loss and its gradients."""
    steps, loss = found
    assert abs(loss - float(wanted[0])) < 1e-6
    assert max(grad.abs().max() for grad in wanted[1].values()) > 1e-4
    for key, step in steps.items():
        grad = wanted[1].get(key, torch.zeros_like(step))
        torch.testing.assert_close(step, grad, rtol=0, atol=tolerance, msg=lambda m, key=key: f"{key}: {m}")


def evaluating_trainer(folder, rows, metrics):
    """A trainer of BART that generates translations of the rows and scores them."""
    generation = {"predict_with_generate": True, "generation_max_length": 12, "per_device_eval_batch_size": 8}
    return make_trainer(
        folder, "BART", trainer=Seq2SeqTrainer, given={"eval_dataset": rows, "compute_metrics": metrics}, **generation
    )
