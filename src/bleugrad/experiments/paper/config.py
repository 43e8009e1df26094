"""Settings of the paper's protocol; the defaults are the paper's where it states them."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from bleugrad.configuration.loading import build, merged
from bleugrad.configuration.stage import LARGEST_SEED, RunStage, Stage, option, stage, tables
from bleugrad.data.config import DataConfig
from bleugrad.errors import UsageError
from bleugrad.experiments.paper.branches import Branch, read_branch, select
from bleugrad.models.config import ModelConfig
from bleugrad.training.config import EvaluationConfig, OptimizerConfig, TrainConfig

BRANCHES = ("ce", "reinforce", "bound", "exact", "unbiased", "exact-own")
"""The second phases if none are named."""


@dataclass(frozen=True)
class BaseConfig(OptimizerConfig):
    """First phase: cross-entropy until validation BLEU has stopped rising."""

    patience: int = option(
        1, "epochs before a decay: without a better BLEU (plateau), or of any kind (step)", minimum=1
    )
    early_stopping: int = option(4, "stop after so many epochs without a better BLEU; 0 never does", minimum=0)


@dataclass(frozen=True)
class TuningConfig(Stage):
    """Second phase: every objective has as many epochs and tries as many learning rates."""

    epochs: int = option(5, "of each try", minimum=1)
    learning_rate: float = option(1e-4, "of Adam, times each factor", above=0)
    reinforce_learning_rate: float = option(1e-5, "of REINFORCE, times each factor", above=0)
    factors: tuple[float, ...] = option((0.3, 1.0, 3.0), "learning rates tried, as multiples", above=0)
    choose_with: Literal["every", "first"] = option(
        "every", "choose learning rates by validation BLEU with every seed, or with the first one for all seeds"
    )
    batch_size: int = option(0, "sentences or tokens of a batch; 0: as in the first phase", minimum=0)
    decay: Literal["plateau", "step", "none"] = option("none", "as in the first phase")
    decay_factor: float = option(0.5, "what the learning rate is multiplied by", above=0, maximum=1)
    patience: int = option(1, "epochs before a decay", minimum=1)
    early_stopping: int = option(0, "stop a try after so many epochs without a better BLEU; 0 never does", minimum=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.factors)) < len(self.factors):
            raise UsageError(f"factors is {self.factors}; expected each factor once")


@dataclass(frozen=True)
class ReproduceConfig(RunStage):
    """The whole protocol."""

    seed: int = option(1, "of the first run; further runs take the seeds after it", minimum=0, maximum=LARGEST_SEED)
    seeds: int = option(3, "runs of the whole protocol", minimum=1)
    beam: int = option(5, "width of beam search on the test set, beside greedy search", minimum=2)
    resamples: int = option(1000, "of the test set, for bootstrap intervals and tests", minimum=100)
    examples: int = option(8, "translations shown side by side in the report", minimum=0)
    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute; auto takes a GPU where there is one")
    threads: int = option(1, "of torch on a CPU, for each process; 0 leaves it to torch", minimum=0, maximum=1024)
    checkpoint_every: int = option(500, "steps between checkpoints within an epoch; 0 only after each", minimum=0)
    data: DataConfig = stage(DataConfig, "corpus and batches")
    model: ModelConfig = stage(ModelConfig, "encoder and decoder")
    base: BaseConfig = stage(BaseConfig, "first phase, cross-entropy")
    tuning: TuningConfig = stage(TuningConfig, "second phase, each objective from the best weights of the first")
    evaluation: EvaluationConfig = stage(EvaluationConfig, "translation and scores")
    branches: dict[str, Any] = tables(
        select(BRANCHES, {}), "second phases: settings of a training run, and learning_rates"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        branches = self.read_branches()
        object.__setattr__(self, "branches", {label: branch.table for label, branch in branches.items()})
        for branch in branches.values():
            build(TrainConfig, merged(self.training(), branch.overrides), f"branches.{branch.label}.")
            if branch.rates and len(branch.rates) != len(self.tuning.factors):
                raise UsageError(
                    f"branches.{branch.label} has {len(branch.rates)} learning rates and tuning.factors "
                    f"{len(self.tuning.factors)}; expected as many, so that every branch has as many tries"
                )

    def read_branches(self) -> dict[str, Branch]:
        """The second phases by label."""
        return {label: read_branch(label, table) for label, table in self.branches.items()}

    def training(self) -> dict[str, Any]:
        """The settings that all training runs share, and the optimizer of the first phase."""
        shared = {name: getattr(self, name) for name in ("device", "threads", "checkpoint_every")}
        stages = {"data": self.data, "model": self.model, "optimizer": self.base, "evaluation": self.evaluation}
        return shared | {name: asdict(settings) for name, settings in stages.items()}

    def run_seeds(self) -> list[int]:
        """The seed of each run."""
        return list(range(self.seed, self.seed + self.seeds))

    def rates(self, branch: Branch) -> list[float]:
        """The learning rates a branch tries, in order."""
        if branch.rates:
            return list(branch.rates)
        tuning = self.tuning
        centre = tuning.reinforce_learning_rate if branch.objective == "reinforce" else tuning.learning_rate
        return [float(f"{centre * factor:.6g}") for factor in tuning.factors]  # 3e-05, not 3.0000000000000004e-05
