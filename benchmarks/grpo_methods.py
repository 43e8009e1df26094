"""The methods that are compared with GRPO, each as it trains a model for the time of its course."""

import itertools

import torch
from grpo_task import Course, Task, say
from transformers import GPT2LMHeadModel, TrainerCallback

import bleugrad
from bleugrad.hf import BLEUCollator, BLEULoss, BLEUReward


def train_teacher_forced(task: Task, model: GPT2LMHeadModel, course: Course, rate: float, bleu_weight: float) -> None:
    """Cross-entropy or expected BLEU: one pass a step, no samples."""
    plain = {"adaptive": False, "words": False, "end_positions": 0, "sharpness": 1.0}  # expected BLEU of tokens alone
    loss = BLEULoss(model, task.tokenizer, bleu_weight=bleu_weight, **plain)
    collate = BLEUCollator(task.tokenizer, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    for indices in task.batches(task.settings.batch, seed=1):
        batch = collate([task.rows[index] for index in indices])
        labels = batch.pop("labels")
        value = loss(model(**batch), labels)
        _descend(value, model, optimizer)
        if not course.step():
            return


def train_reinforce(task: Task, model: GPT2LMHeadModel, course: Course, rate: float) -> None:
    """Samples of the model itself, rewarded by BLEU, the mean of a sentence's other samples as baseline."""
    settings, tokenizer = task.settings, task.tokenizer
    end = tokenizer.eos_token_id
    loss = bleugrad.ReinforceLoss(samples=settings.samples, baseline="leave-one-out", eos_id=end)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    for indices in task.batches(settings.batch // settings.samples, seed=1):
        prompts = [f"{task.pairs[index][0]} =" for index in indices]
        references = [tokenizer(task.pairs[index][1])["input_ids"] for index in indices]
        batch = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
        model.eval()
        with torch.no_grad():
            whole = model.generate(
                **batch,
                do_sample=True,
                top_k=0,
                max_new_tokens=settings.longest,
                num_return_sequences=settings.samples,
            )
        model.train()
        prompt = batch["input_ids"].shape[1]
        mask = batch["attention_mask"].repeat_interleave(settings.samples, 0)
        mask = torch.cat([mask, torch.ones_like(whole[:, prompt:])], 1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        logits = model(whole, attention_mask=mask, position_ids=positions).logits[:, prompt - 1 : -1]
        tokens = whole[:, prompt:]
        log_probs = logits.log_softmax(-1).gather(2, tokens[..., None]).squeeze(2)
        shape = (len(indices), settings.samples, tokens.shape[1])
        value = loss.from_samples(tokens.view(shape), log_probs.view(shape), [[one] for one in references])
        _descend(value, model, optimizer)
        if not course.step():
            return


def train_grpo(task: Task, model: GPT2LMHeadModel, course: Course, rate: float) -> None:
    """TRL's trainer, which samples, rewards and normalises within each sentence's samples."""
    import datasets
    import trl

    class Watch(TrainerCallback):
        def on_train_begin(self, args, state, control, **_):
            course.clock.start()

        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = not course.step()

    settings = task.settings
    rows = [{"prompt": f"{de} =", "reference": en} for de, en in task.pairs]
    config = trl.GRPOConfig(
        output_dir="runs/grpo",
        learning_rate=rate,
        lr_scheduler_type="constant",
        per_device_train_batch_size=settings.batch,
        num_generations=settings.samples,
        max_completion_length=settings.longest,
        max_steps=10**6,
        beta=0.0,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="no",
        seed=settings.seed,
    )
    course.clock.stop()
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=BLEUReward(tokenize="none"),
        args=config,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=task.tokenizer,
        callbacks=[Watch()],
    )
    trainer.train()


def _descend(loss: torch.Tensor, model: GPT2LMHeadModel, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def pretrain(task: Task, model: GPT2LMHeadModel) -> None:
    settings = task.settings
    loss, collate = BLEULoss(model, task.tokenizer, bleu_weight=0.0), BLEUCollator(task.tokenizer, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.pretrain_rate, weight_decay=0.0)
    for step, indices in enumerate(itertools.islice(task.batches(settings.batch, seed=0), settings.pretrain), start=1):
        for group in optimizer.param_groups:
            group["lr"] = settings.pretrain_rate * min(step / 100, 1.0)
        batch = collate([task.rows[index] for index in indices])
        labels = batch.pop("labels")
        value = loss(model(**batch), labels)
        _descend(value, model, optimizer)
        if step % 200 == 0:
            say(f"pre-training step {step}: cross-entropy {value.item():.3f}")
