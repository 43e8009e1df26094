"""Settings of a training run; ``experiments/paper/presets.py`` has those of the paper."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.errors import UsageError
from bleugrad.lab.models.config import ModelConfig
from bleugrad.lab.settings.config import ANY, Config, RunConfig, choice, inner, option
from bleugrad.lab.training.objectives.config import (
    OBJECTIVES,
    CrossEntropyConfig,
    ExpectedConfig,
    ObjectiveConfig,
    current,
)


@dataclass(frozen=True)
class OptimizerConfig(Config):
    """Adam, its learning rate schedule, validation and early stopping."""

    dropped: ClassVar[Mapping[str, Any]] = MappingProxyType({"validate_every": 0})

    learning_rate: float = option(1e-3, "learning rate of Adam; with a warm-up, its highest value", above=0)
    epochs: int = option(20, "largest number of passes over the training data", minimum=1)
    clip: float = option(5.0, "largest norm of the gradient; 0: no clipping", minimum=0)
    weight_decay: float = option(0.0, "decoupled weight decay of matrices (AdamW); 0: Adam", minimum=0, maximum=1)
    beta2: float = option(0.999, "Adam's decay of squared gradients", above=0, maximum=0.999999)
    warmup: int = option(0, "steps in which the learning rate rises from 0", minimum=0)
    decay: Literal["plateau", "step", "inverse_sqrt", "cosine", "none"] = option(
        "plateau",
        "when the learning rate falls; plateau: validation BLEU stops rising; step: every few validations; "
        "inverse_sqrt: with the root of the step; cosine: to 0 after the last epoch; none: never",
    )
    decay_factor: float = option(0.5, "plateau and step: factor of the learning rate at a decay", above=0, maximum=1)
    patience: int = option(
        2, "validations before a decay: those without a better BLEU (plateau), or all (step)", minimum=1
    )
    average: int = option(
        1, "validate and keep the mean of the weights at this many last validations", minimum=1, maximum=100
    )
    early_stopping: int = option(
        0, "stop after this many validations without a better validation BLEU; 0: never", minimum=0
    )
    accumulation: int = option(1, "batches per optimizer step", minimum=1)
    precision: Literal["32", "bf16"] = option(
        "32", "32: float32; bf16: bfloat16 where it is safe and the device supports it"
    )


@dataclass(frozen=True)
class EvaluationConfig(Config):
    """How translations are made and scored."""

    batch_size: int = option(128, "sentences translated at once", minimum=1)
    tokenize: Literal["none", "13a", "intl", "char"] = option(
        "none", "tokenizer of sacreBLEU; none suits tokenised text, and becomes 13a with --data-raw"
    )
    validation_beam: int = option(1, "beam width that validation uses to choose weights", minimum=1, maximum=1000)
    length_penalty: float = option(1.0, "beam search divides log-probabilities by length to this power", minimum=0)
    maximum_factor: float = option(2.0, "longest translation: tokens per source token", above=0, maximum=1000)
    maximum_extra: int = option(10, "longest translation: additional tokens", minimum=1)
    forbid_unknown: bool = option(True, "never generate the unknown token")


@dataclass(frozen=True)
class SharedConfig(RunConfig):
    """Settings that a training run and a protocol of training runs share."""

    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute; auto uses a GPU if there is one")
    threads: int = option(1, "CPU threads per process; 0: torch's default", minimum=0, maximum=1024)
    checkpoint_every: int = option(1000, "steps between checkpoints in an epoch; 0: only at its end", minimum=0)
    data: DataConfig = inner(DataConfig, "corpus and batches")
    model: ModelConfig = inner(ModelConfig, "encoder and decoder")
    evaluation: EvaluationConfig = inner(EvaluationConfig, "translation and scores")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.one_pass and self.evaluation.validation_beam > 1:
            found = f"evaluation.validation_beam is {self.evaluation.validation_beam}"
            raise UsageError(f"{found} with model.kind {self.model.kind!r}, which needs no search; expected 1")
        if self.data.raw and self.evaluation.tokenize == "none":  # scores of ordinary text split punctuation off
            object.__setattr__(self, "evaluation", replace(self.evaluation, tokenize="13a"))
        if self.model.tied == "all" and not self.data.joint:
            raise UsageError("model.tied is 'all' with two vocabularies; expected data.joint, one for both languages")


@dataclass(frozen=True)
class TrainConfig(SharedConfig):
    """A whole training run."""

    dropped: ClassVar[Mapping[str, Any]] = MappingProxyType({"tensorboard": ANY, "wandb": ANY})

    record_every: int = option(50, "steps between records of loss and gradient norm", minimum=1)
    optimizer: OptimizerConfig = inner(OptimizerConfig, "optimizer")
    objective: ObjectiveConfig = choice(OBJECTIVES, "objective", current)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.one_pass:
            _check_one_pass(self.model.kind, self.objective)
        elif getattr(self.objective, "glancing_first", 0) or getattr(self.objective, "glancing_last", 0):
            raise UsageError(
                f"objective.glancing_first or glancing_last is above 0 with {self.model.kind!r}; expected 0"
            )


def _check_one_pass(kind: str, objective: ObjectiveConfig) -> None:
    """Raise where the objective needs a decoder that is fed tokens."""
    able = [name for name, one in OBJECTIVES.items() if kind in one.one_pass and (kind == "nat" or name != "bound")]
    if objective.name not in able:
        listed = ", ".join(map(repr, able))
        raise UsageError(f"objective.name is {objective.name!r} with model.kind {kind!r}; expected one of {listed}")
    usual: dict[str, Any] = {"feeding": "reference"}
    if isinstance(objective, ExpectedConfig):
        usual |= {"length": "given", "end_positions": 0} | ({} if kind == "nat" else {"units": "tokens"})
    if kind != "nat" and isinstance(objective, CrossEntropyConfig):
        usual["label_smoothing"] = 0.0
    for name, value in usual.items():
        if (found := getattr(objective, name)) != value:
            raise UsageError(f"objective.{name} is {found!r} with model.kind {kind!r}; expected {value!r}, its default")
