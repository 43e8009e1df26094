"""The stages of the protocol: their dependencies, directories and settings, and whether they are done.

DIR/seed-1/base          cross-entropy, the first phase
DIR/seed-1/exact-lr1e-4  a try of a branch: an objective and a learning rate
DIR/logs                 the output of each stage

A test is a stage too, and writes into the run that it tests. It is known when all tries are done.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from bleugrad.lab.errors import FailureError
from bleugrad.lab.experiments.paper.branches import Branch
from bleugrad.lab.experiments.paper.config import ReproduceConfig
from bleugrad.lab.runs.directory import ABOUT, CONFIG, SUMMARY, evaluation_file, read_about
from bleugrad.lab.runs.files import read_json
from bleugrad.lab.settings.config import differences
from bleugrad.lab.settings.loading import build, merged, read_toml
from bleugrad.lab.training.config import TrainConfig

BASE, LOGS = "base", "logs"
EPOCHS = ("optimizer", "epochs")
MAY_DIFFER = (("device",), ("threads",), ("record_every",), ("checkpoint_every",))
"""Settings that may differ between a finished stage and the requested one."""


@dataclass(frozen=True)
class PlannedStage:
    """A stage: the first phase, a try of a branch, or a test. ``branch`` is its label, or "base".

    ``tried`` is the index of the learning rate, None if the first seed decides it, and for a base or a test.
    """

    kind: Literal["base", "try", "test"]
    seed: int
    branch: str
    tried: int | None = None


@dataclass(frozen=True)
class Protocol:
    """The settings, and the directory of all stages."""

    config: ReproduceConfig
    output: Path

    @cached_property
    def branches(self) -> dict[str, Branch]:
        """The branches by label."""
        return self.config.read_branches()

    @cached_property
    def stages(self) -> list[PlannedStage]:
        """All stages, seed by seed; ready ones start in this order."""
        return [stage for seed in self.config.run_seeds() for stage in self._of_seed(seed)]

    def _of_seed(self, seed: int) -> Iterator[PlannedStage]:
        yield PlannedStage("base", seed, BASE)
        yield PlannedStage("test", seed, BASE)
        for label in self.branches:
            yield from self.tries(seed, label)
            yield PlannedStage("test", seed, label)

    def tries(self, seed: int, label: str) -> list[PlannedStage]:
        """The tries of a branch."""
        if self.config.tuning.choose_with == "first" and seed != self.config.seed:
            return [PlannedStage("try", seed, label)]
        return [PlannedStage("try", seed, label, tried) for tried in range(len(self.config.tuning.factors))]

    def needs(self, stage: PlannedStage) -> set[PlannedStage]:
        """The stages that must be done before."""
        base = PlannedStage("base", stage.seed, BASE)
        if stage.kind == "base":
            return set()
        if stage.branch == BASE:
            return {base}
        if stage.kind == "test":
            return set(self.tries(stage.seed, stage.branch))
        decided = [] if stage.tried is not None else self.tries(self.config.seed, stage.branch)
        return {base, *decided}

    def rate(self, stage: PlannedStage) -> float:
        """The learning rate of a try; if the first seed decides it, the tries of that seed must be done."""
        tried = stage.tried
        if tried is None:
            tried = self.best_try(self.config.seed, stage.branch).tried
            assert tried is not None
        return self.config.rates(self.branches[stage.branch])[tried]

    def best_try(self, seed: int, label: str) -> PlannedStage:
        """The first try with the highest validation BLEU; all must be done."""
        return max(self.tries(seed, label), key=lambda stage: read_summary(self.directory(stage))["best_bleu"])

    def directory(self, stage: PlannedStage) -> Path:
        """The run that the stage trains or tests; the stages that it needs must be done."""
        folder = self.output / f"seed-{stage.seed}"
        if stage.branch == BASE:
            return folder / BASE
        if stage.kind == "test":
            return self.directory(self.best_try(stage.seed, stage.branch))
        return folder / f"{stage.branch}-lr{rate_name(self.rate(stage))}"

    def name(self, stage: PlannedStage) -> str:
        """The name of the stage; the stages that it needs must be done."""
        name = str(self.directory(stage).relative_to(self.output))
        return f"{name} on test" if stage.kind == "test" else name

    def log(self, stage: PlannedStage) -> Path:
        """The log file of the stage."""
        name = self.name(stage).replace(" on test", ".test").replace("/", ".")
        return self.output / LOGS / f"{name}.txt"

    def settings(self, stage: PlannedStage) -> TrainConfig:
        """The training settings of a base or a try."""
        config = self.config
        common = config.training() | {"seed": stage.seed}
        if stage.kind == "base":
            return build(TrainConfig, common)
        tuning = asdict(config.tuning)
        shared = ("epochs", "warmup", "average", "decay", "decay_factor", "patience", "early_stopping")
        second = {"learning_rate": self.rate(stage), **{name: tuning[name] for name in shared}}
        batches = {"data": {"batch_size": config.tuning.batch_size}} if config.tuning.batch_size else {}
        values = merged(merged(common, {"optimizer": second, **batches}), self.branches[stage.branch].overrides)
        return build(TrainConfig, values)

    def is_done(self, stage: PlannedStage) -> bool:
        """Whether the stage is done; the stages that it needs must be done. Other settings than before are an error.

        A base without tries continues if more epochs are requested.
        """
        directory = self.directory(stage)
        if stage.kind == "test":
            return all(
                evaluation_file(directory, "test", beam, "json").exists() for beam in self.config.searches.values()
            )
        about = read_about(directory) if directory.is_dir() else None
        if about is None or not (directory / CONFIG).exists():  # killed before it was written
            return False
        saved, wanted = build(TrainConfig, read_toml(directory / CONFIG)), self.settings(stage)
        more = wanted.optimizer.epochs > saved.optimizer.epochs
        continues = stage.kind == "base" and more and _has_no_tries(directory)
        for path, before, now in differences(saved, wanted):
            if path not in ((*MAY_DIFFER, EPOCHS) if continues else MAY_DIFFER):
                raise FailureError(
                    f"{directory} was made with {'.'.join(path)} = {before!r}, and {now!r} is requested now; choose "
                    "another directory with --output, or start from scratch with --overwrite"
                )
        return not continues and about["status"] == "finished" and (directory / SUMMARY).exists()

    def request(self, stage: PlannedStage) -> dict[str, Any]:
        """The request to a worker, for JSON."""
        directory = self.directory(stage)
        told: dict[str, Any] = {"kind": stage.kind, "directory": str(directory), "log": str(self.log(stage))}
        if stage.kind == "test":
            return told | {"beams": list(self.config.searches.values()), "device": self.config.device}
        initial = None if stage.kind == "base" else str(directory.parent / BASE)
        return told | {"settings": asdict(self.settings(stage)), "initial": initial}


def _has_no_tries(base: Path) -> bool:
    """Whether no run starts from the weights of this base."""
    return all(run.parent == base for run in base.parent.glob(f"*/{ABOUT}"))


def read_scores(directory: Path, beam: int) -> dict[str, Any]:
    """The scores of the test set."""
    return _read_table(evaluation_file(directory, "test", beam, "json"))


def read_summary(directory: Path) -> dict[str, Any]:
    """The results of a training run."""
    return _read_table(directory / SUMMARY)


def _read_table(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except FileNotFoundError:
        raise FailureError(f"{path} is missing") from None
    if not isinstance(content, dict) or not content.keys() & {"bleu", "best_bleu"}:
        raise FailureError(f"{path} cannot be read: it holds no scores")
    return content


def count_kinds(stages: Sequence[PlannedStage]) -> str:
    """The number of stages of each kind, as text."""
    names = {"base": "base runs", "try": "tuning runs", "test": "tests"}
    return ", ".join(f"{words} {sum(stage.kind == kind for stage in stages)}" for kind, words in names.items())


def rate_name(rate: float) -> str:
    """A learning rate as short text.

    Example:
        >>> rate_name(1e-4), rate_name(0.00025), rate_name(3.0)
        ('1e-4', '2.5e-4', '3e0')
    """
    mantissa, exponent = f"{rate:.5e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
