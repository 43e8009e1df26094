"""The training loop, from top to bottom: ``Trainer.train`` calls the methods below it in their order."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bleugrad.lab.data.batches import BatchPlan, shard
from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.encoding import EncodedSplit
from bleugrad.lab.errors import FailureError
from bleugrad.lab.models.protocol import TranslationModel
from bleugrad.lab.runs.directory import Run, remove_evaluations
from bleugrad.lab.runs.progress import Progress
from bleugrad.lab.training.checkpoints import (
    BEST,
    FOLDER,
    LAST,
    Checkpoint,
    copy_weights,
    put_optimizer,
    put_weights,
    split_recent,
    weights_of,
    write_checkpoint,
)
from bleugrad.lab.training.config import TrainConfig
from bleugrad.lab.training.objectives.build import build_objective
from bleugrad.lab.training.objectives.config import CrossEntropyConfig
from bleugrad.lab.training.optimizer import Schedule, build_optimizer, step_factor
from bleugrad.lab.training.processes import SingleProcess
from bleugrad.lab.training.run_state import Position, seed_step
from bleugrad.lab.training.scores import Scores, score
from bleugrad.lab.training.skip_penalty import best_penalty
from bleugrad.lab.training.translation import translate_ids
from bleugrad.lab.training.vocabularies import Vocabularies


@dataclass(frozen=True)
class TrainingSetup:
    """Settings, model and data of a training run.

    ``fingerprints`` identify data and vocabularies in checkpoints. With ``validate_first`` the initial weights, which
    another run trained, are validated before the first epoch.
    """

    config: TrainConfig
    model: TranslationModel
    vocabularies: Vocabularies
    train: EncodedSplit
    valid: Split
    fingerprints: dict[str, Any] = field(default_factory=dict)
    validate_first: bool = False


class Trainer:
    """One process of a training run. Only rank 0 has a ``run`` to write to."""

    def __init__(self, setup: TrainingSetup, processes: SingleProcess, run: Run | None = None) -> None:
        config, vocabularies = setup.config, setup.vocabularies
        self.setup, self.config, self.processes, self.run = setup, config, processes, run
        self.model = setup.model.to(processes.device)
        data, size = config.data, config.data.batch_size * processes.world
        self.plan = BatchPlan(setup.train, data.batch_by, size, config.seed, by_source=config.model.one_pass)
        self.valid_sources = vocabularies.source.encode_lines(setup.valid.sources)
        starts = vocabularies.target.word_start()
        word_start = None if starts is None else torch.tensor(starts)
        objective = build_objective(self.model, config.objective, processes.group, word_start)
        self.inner_objective, self.objective = objective, processes.prepare(objective)
        self.parameters = list(self.model.parameters())
        self.optimizer = build_optimizer(self.model, config.optimizer)
        self.schedule = Schedule(config.optimizer.learning_rate)
        self.position = Position()
        self.skip_penalty = 0.0  # of the best weights
        self.history: list[dict[str, Any]] = []
        self.recent: list[dict[str, Tensor]] = []
        self.timed = 0, time.monotonic()

    def restore(self, checkpoint: Checkpoint, path: Path) -> None:
        """Load a checkpoint to resume from."""
        position, self.history = Position(**checkpoint.state["position"]), checkpoint.state["history"]
        steps = len(self.windows(position.epoch))
        if position.done >= steps:
            raise FailureError(f"{path} does not fit the run: {position.done} steps of an epoch of {steps} are done")
        put_weights(self.model, checkpoint.weights, path)
        self.recent = split_recent(self.model, checkpoint.recent, self.config.optimizer.average, path)
        put_optimizer(self.model, self.optimizer, checkpoint.optimizer, position.step, path)
        self.schedule = Schedule(**checkpoint.state["schedule"])
        self.skip_penalty = float(checkpoint.state.get("skip_penalty", 0.0))
        self.position = position

    @property
    def over(self) -> bool:
        """Whether the last epoch or early stopping ends the run."""
        optimizer = self.config.optimizer
        return self.position.epoch > optimizer.epochs or self.schedule.over(optimizer)

    def train(self) -> dict[str, Any]:
        """Train to the end and return the summary, which is also saved."""
        if self.setup.validate_first and not self.history:
            self.validate(epoch=0)
        while not self.over:
            self.train_epoch()
        return self.summarise()

    def train_epoch(self) -> None:
        """Train for the rest of the current epoch."""
        self.model.train()
        epoch, last = self.position.epoch, self.config.optimizer.epochs
        self.inner_objective.begin_epoch(epoch, (epoch - 1) / max(last - 1, 1))
        windows = self.windows(epoch)
        left = range(self.position.done, len(windows))
        self.timed = self.position.step, time.monotonic()
        with Progress(len(left), f"epoch {epoch}/{last}") if self.run is not None else nullcontext() as progress:
            for number in left:
                loss, norm = self.take_step(windows[number])
                self.position.step += 1
                self.position.done += 1
                self.position.loss += loss
                if progress is not None:
                    progress.advance(loss=loss)
                if self.position.step % self.config.record_every == 0:
                    rate = self.learning_rate(self.position.step)
                    self.record("step", loss=loss, gradient_norm=norm, learning_rate=rate)
                every = self.config.checkpoint_every
                if every and self.position.step % every == 0 and self.position.done < len(windows):
                    self.save(LAST)
        self.validate(self.position.epoch)

    def learning_rate(self, step: int) -> float:
        """The learning rate of an update, counted from 1."""
        optimizer = self.config.optimizer
        total = optimizer.epochs * self.steps_per_epoch if optimizer.decay == "cosine" else 0
        return self.schedule.learning_rate * step_factor(step, total, optimizer)

    @cached_property
    def steps_per_epoch(self) -> int:
        """The updates of the first epoch, and about as many of the others."""
        return len(self.windows(1))

    def windows(self, epoch: int) -> list[list[list[int]]]:
        """The batches of an epoch, of all processes together, grouped by optimizer step."""
        batches, size = self.plan.epoch(epoch), self.config.optimizer.accumulation
        return [batches[start : start + size] for start in range(0, len(batches), size)]

    def take_step(self, window: Sequence[Sequence[int]]) -> tuple[float, float]:
        """One update; returns the loss over all processes and the norm of its gradient.

        The weight of a batch in its window is its share of tokens for cross-entropy, else of sentences.
        """
        processes = self.processes
        seed_step(self.config.seed, self.position.step, processes.rank)
        shares = self.shares(window)
        total = 0.0
        for number, indices in enumerate(shard(window, processes.rank, processes.world)):
            batch = self.plan.collate(indices).to(processes.device)
            with processes.accumulation(self.objective, last=number == len(window) - 1):
                loss = self.objective(batch) * shares[number]
                processes.backward(loss)
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.optimizer.clip or math.inf).item()
        if not math.isfinite(norm):
            raise FailureError(
                f"the gradient at step {self.position.step + 1} is not finite; the last checkpoint is unchanged; "
                "try a lower learning rate or a smaller clip"
            )
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(self.position.step + 1)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return processes.sum([total])[0] / processes.world, norm

    def shares(self, window: Sequence[Sequence[int]]) -> list[float]:
        """The weight of each batch of a window."""
        sizes: list[int] = [len(indices) for indices in window]
        if isinstance(self.config.objective, CrossEntropyConfig):
            sizes = [self.plan.target_tokens(indices) for indices in window]
        return [size / sum(sizes) for size in sizes]

    def validate(self, epoch: int) -> None:
        """Measure BLEU after an epoch (0: before the first), and save the weights, also as the best if they are."""
        steps, seconds = self.position.step - self.timed[0], time.monotonic() - self.timed[1]
        with self.averaged():
            scores = self.score_valid()
            learning_rate = self.learning_rate(max(self.position.step, 1))
            improved = self.schedule.observe(scores.bleu, epoch, self.config.optimizer)
            position = self.position
            loss = position.loss / position.done if position.done else None
            self.history.append({"epoch": epoch, "step": position.step, "train_loss": loss, **scores.to_json()})
            self.record("epoch", epoch=epoch, train_loss=loss, learning_rate=learning_rate, **scores.to_json())
            self.say_validated(epoch, steps, seconds, scores, improved)
            self.position = Position(epoch + 1, 0, position.step, 0.0)
            if improved:
                self.skip_penalty = best_penalty(self.model, scores.bleu, lambda: self.score_valid().bleu)
                self.save(BEST)
        self.save(LAST)
        self.timed = self.position.step, time.monotonic()

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model with the mean of its weights at the last validations, this one included."""
        most = self.config.optimizer.average
        if most == 1:
            yield
            return
        own = weights_of(self.model)
        self.recent = [*self.recent, own][-most:]
        copy_weights(self.model, {name: torch.stack([one[name] for one in self.recent]).mean(0) for name in own})
        try:
            yield
        finally:
            copy_weights(self.model, own)

    def say_validated(self, epoch: int, steps: int, seconds: float, scores: Scores, improved: bool) -> None:
        """Print a validation; ``steps`` and ``seconds`` are those since the last one or the last resume."""
        if self.run is None:
            return
        loss = self.history[-1]["train_loss"]
        trained = "" if loss is None else f"loss {loss:.4f}, {steps / max(seconds, 1e-9):.1f} steps/s, "
        if steps:
            self.run.record_time(epoch=epoch, steps=steps, seconds=round(seconds, 4))
        best = " (best so far)" if improved else ""
        self.run.say(f"epoch {epoch}: {trained}valid {scores.line()}{best}")

    def score_valid(self) -> Scores:
        """Scores of translations of the validation text, in every process."""
        model, settings = self.model, self.config.evaluation
        width = settings.validation_beam
        hypotheses = translate_ids(model, self.valid_sources, settings, self.processes, width=width)
        texts = [self.setup.vocabularies.target.decode(best[0].tokens) for best in hypotheses]
        return score(texts, self.setup.valid.references, settings.tokenize)

    def record(self, kind: str, **values: Any) -> None:
        """Write one measurement to metrics.jsonl; no times, so that repeated runs are identical."""
        if self.run is not None:
            self.run.record(kind=kind, step=self.position.step, **values)

    def save(self, name: str) -> None:
        """Write a checkpoint: the weights, and in the last one everything that a resume needs."""
        if self.run is not None:
            state = {
                "position": asdict(self.position),
                "schedule": asdict(self.schedule),
                "history": self.history,
                "records_end": self.run.records.flush(),
                **self.setup.fingerprints,
                **({"skip_penalty": self.skip_penalty} if self.config.model.one_pass else {}),
            }
            if name == BEST:
                remove_evaluations(self.run.path)
            checkpoint = Checkpoint.take(self.model, self.optimizer if name == LAST else None, state)
            if name == LAST:
                recent = {f"{place}.{name}": one[name] for place, one in enumerate(self.recent) for name in one}
                checkpoint = replace(checkpoint, recent=recent)
            write_checkpoint(self.run.path / FOLDER / name, checkpoint)

    def summarise(self) -> dict[str, Any]:
        """The results of the run."""
        scores = self.history[-1]
        summary = {
            "objective": self.config.objective.name,
            "best_bleu": self.schedule.best,
            "best_epoch": self.schedule.best_epoch,
            "best_step": next(one["step"] for one in self.history if one["bleu"] == self.schedule.best),
            "epochs": self.position.epoch - 1,
            "steps": self.position.step,
            "training_pairs": len(self.setup.train),
            "parameters": sum(parameter.numel() for parameter in self.parameters),
            "bleu_signature": scores["bleu_signature"],
            "chrf_signature": scores["chrf_signature"],
            "history": self.history,
        }
        if self.config.model.one_pass:
            summary["skip_penalty"] = self.skip_penalty
        if self.run is not None:
            self.run.summarise(summary)
            self.run.say(
                f"best: epoch {self.schedule.best_epoch}, valid BLEU {100 * self.schedule.best:.2f} "
                f"({scores['bleu_signature']})"
            )
        return summary
