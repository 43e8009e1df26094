"""Settings of the experiment; the defaults are those of the tuned protocol, see ``presets.py``."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from bleugrad.lab.errors import UsageError
from bleugrad.lab.experiments.paper.branches import Branch, read_branch, select
from bleugrad.lab.settings.config import LARGEST_SEED, Config, inner, option, settings, tables
from bleugrad.lab.settings.loading import build, merged
from bleugrad.lab.training.config import OptimizerConfig, SharedConfig, TrainConfig
from bleugrad.lab.training.objectives.config import GLANCING

BRANCHES = ("ce", "reinforce", "bound", "exact", "recommended")
"""The second phases if none are named."""


@dataclass(frozen=True)
class BaseConfig(OptimizerConfig):
    """First phase: cross-entropy until validation BLEU stops rising."""

    patience: int = option(
        1, "validations before a decay: those without a better BLEU (plateau), or all (step)", minimum=1
    )
    early_stopping: int = option(
        4, "stop after this many validations without a better validation BLEU; 0: never", minimum=0
    )


@dataclass(frozen=True)
class TuningConfig(Config):
    """Second phase: all branches have the same number of epochs and of learning rates."""

    epochs: int = option(5, "epochs of each try", minimum=1)
    learning_rate: float = option(1e-4, "central learning rate", above=0)
    reinforce_learning_rate: float = option(1e-5, "central learning rate of REINFORCE", above=0)
    factors: tuple[float, ...] = option((0.3, 1.0, 3.0), "multiples of the central rate to try", above=0)
    choose_with: Literal["every", "first"] = option(
        "every", "choose learning rates by validation BLEU for each seed, or by the first seed for all"
    )
    batch_size: int = option(0, "sentences or tokens per batch; 0: as in the first phase", minimum=0)
    warmup: int = option(0, "steps in which the learning rate rises from 0", minimum=0)
    decay: Literal["plateau", "step", "inverse_sqrt", "cosine", "none"] = option(
        "none", "when the learning rate falls, see --base-decay"
    )
    decay_factor: float = option(0.5, "factor of the learning rate at a decay", above=0, maximum=1)
    patience: int = option(1, "epochs before a decay", minimum=1)
    average: int = option(1, "validate and keep the mean of the weights at this many last validations", minimum=1)
    early_stopping: int = option(0, "stop a try after this many epochs without a better BLEU; 0: never", minimum=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.factors)) < len(self.factors):
            raise UsageError(f"factors is {self.factors}; expected each factor once")


@dataclass(frozen=True)
class ReproduceConfig(SharedConfig):
    """The whole protocol."""

    protocol: Literal["tuned", "paper"] = option(
        "tuned", "paper: its objectives, rates, epochs and runs; tuned: several rates, and a first phase that converges"
    )
    seed: int = option(1, "random seed; later runs use seed + 1, seed + 2, ...", minimum=0, maximum=LARGEST_SEED)
    seeds: int = option(3, "number of runs of the whole protocol", minimum=1)
    beam: int = option(5, "beam width on the test set, in addition to greedy search", minimum=2)
    resamples: int = option(1000, "bootstrap samples of the test set", minimum=100)
    label_smoothing: float = option(
        0.0,
        "label smoothing in the first phase, and in the branches ce and recommended",
        minimum=0,
        maximum=0.9,
    )
    glancing_first: float = option(0.0, f"{GLANCING} in the first epoch of the first phase", minimum=0, maximum=1)
    glancing_last: float = option(
        0.0, f"{GLANCING} in its last epoch, and in all of the likelihood's branch", minimum=0, maximum=1
    )
    examples: int = option(8, "translations shown side by side in the report", minimum=0)
    checkpoint_every: int = option(500, "steps between checkpoints in an epoch; 0: only at its end", minimum=0)
    base: BaseConfig = inner(BaseConfig, "first phase, cross-entropy")
    tuning: TuningConfig = inner(TuningConfig, "second phase, from the best weights of the first")
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
                    f"{len(self.tuning.factors)}; expected as many, so that branches are compared fairly"
                )

    def read_branches(self) -> dict[str, Branch]:
        """The second phases by label."""
        branches = {label: read_branch(label, table) for label, table in self.branches.items()}
        for branch in branches.values():
            if branch.objective == "recommended" and self.label_smoothing:
                branch.overrides["objective"].setdefault("label_smoothing", self.label_smoothing)
        return branches

    def training(self) -> dict[str, Any]:
        """The settings that all training runs share, and the optimizer of the first phase."""
        values = asdict(self)
        shared = {setting.name: values[setting.name] for setting in settings(SharedConfig)}
        names = ("label_smoothing", "glancing_first", "glancing_last")
        cross_entropy = {"name": "ce"} | {name: values[name] for name in names}
        return shared | {"optimizer": values["base"], "objective": cross_entropy}

    @property
    def searches(self) -> dict[str, int]:
        """Names and beam widths of the tests: greedy, and beam search where the model needs a search."""
        return {"greedy": 1} | ({} if self.model.one_pass else {f"beam {self.beam}": self.beam})

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
