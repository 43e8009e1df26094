"""The stages of the protocol: which there are, what each waits for, where it writes, and whether it is done.

DIR/seed-1/base          cross-entropy, the first phase
DIR/seed-1/exact-lr1e-4  a try of a branch: an objective and a learning rate
DIR/logs                 what each stage printed

A test is a stage too, and writes into the run that it tests. What it tests is known only when all tries are done.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from bleugrad.configuration.loading import build, merged, read_toml
from bleugrad.configuration.stage import differences
from bleugrad.errors import FailureError
from bleugrad.experiments.paper.branches import Branch
from bleugrad.experiments.paper.config import ReproduceConfig
from bleugrad.runs.directory import ABOUT, CONFIG, SUMMARY, evaluation_file, read_about
from bleugrad.runs.files import read_json
from bleugrad.training.config import TrainConfig

BASE, LOGS = "base", "logs"
EPOCHS = ("optimizer", "epochs")
MAY_DIFFER = (("device",), ("threads",), ("tensorboard",), ("record_every",), ("checkpoint_every",))
"""Settings in which a stage that is done may differ from what is asked for."""


@dataclass(frozen=True)
class PlannedStage:
    """A stage.

    Attributes:
        kind: the first phase, a try of the second, or a test.
        seed: of the run it belongs to.
        branch: the label, or "base".
        tried: which of the learning rates; None where that is decided with the first seed, and for a base or a test.
    """

    kind: Literal["base", "try", "test"]
    seed: int
    branch: str
    tried: int | None = None


@dataclass(frozen=True)
class Protocol:
    """The settings, and the directory that the stages are below."""

    config: ReproduceConfig
    output: Path

    @cached_property
    def branches(self) -> dict[str, Branch]:
        """By label."""
        return self.config.read_branches()

    @cached_property
    def stages(self) -> list[PlannedStage]:
        """All, in the order in which they are started where they can be: seed by seed."""
        return [stage for seed in self.config.run_seeds() for stage in self._of_seed(seed)]

    def _of_seed(self, seed: int) -> Iterator[PlannedStage]:
        yield PlannedStage("base", seed, BASE)
        yield PlannedStage("test", seed, BASE)
        for label in self.branches:
            yield from self.tries(seed, label)
            yield PlannedStage("test", seed, label)

    def tries(self, seed: int, label: str) -> list[PlannedStage]:
        """Those of a branch."""
        if self._chosen_before(seed):
            return [PlannedStage("try", seed, label)]
        return [PlannedStage("try", seed, label, tried) for tried in range(len(self.config.tuning.factors))]

    def _chosen_before(self, seed: int) -> bool:
        return self.config.tuning.choose_with == "first" and seed != self.config.seed

    def needs(self, stage: PlannedStage) -> frozenset[PlannedStage]:
        """What must be done before."""
        return self._all_needs[stage]

    @cached_property
    def _all_needs(self) -> dict[PlannedStage, frozenset[PlannedStage]]:
        return {stage: frozenset(self._needs_of(stage)) for stage in self.stages}

    def _needs_of(self, stage: PlannedStage) -> list[PlannedStage]:
        base = PlannedStage("base", stage.seed, BASE)
        if stage.kind == "base":
            return []
        if stage.branch == BASE:
            return [base]
        if stage.kind == "test":
            return self.tries(stage.seed, stage.branch)
        decided = [] if stage.tried is not None else self.tries(self.config.seed, stage.branch)
        return [base, *decided]

    def rate(self, stage: PlannedStage) -> float:
        """The learning rate of a try; where the first seed decides, its tries must be done."""
        rates = self.config.rates(self.branches[stage.branch])
        if stage.tried is not None:
            return rates[stage.tried]
        best = self.best_try(self.config.seed, stage.branch)
        assert best.tried is not None
        return rates[best.tried]

    def best_try(self, seed: int, label: str) -> PlannedStage:
        """The try with the highest validation BLEU, the first of equals; all must be done."""
        return max(self.tries(seed, label), key=lambda stage: read_summary(self.directory(stage))["best_bleu"])

    def directory(self, stage: PlannedStage) -> Path:
        """Of the run that the stage trains or tests; what it needs must be done."""
        folder = self.output / f"seed-{stage.seed}"
        if stage.branch == BASE:
            return folder / BASE
        if stage.kind == "test":
            return self.directory(self.best_try(stage.seed, stage.branch))
        return folder / f"{stage.branch}-lr{rate_name(self.rate(stage))}"

    def name(self, stage: PlannedStage) -> str:
        """What the stage is called; what it needs must be done."""
        name = str(self.directory(stage).relative_to(self.output))
        return f"{name} on test" if stage.kind == "test" else name

    def log(self, stage: PlannedStage) -> Path:
        """What the stage prints, its failures too."""
        name = self.name(stage).replace(" on test", ".test").replace("/", ".")
        return self.output / LOGS / f"{name}.txt"

    def settings(self, stage: PlannedStage) -> TrainConfig:
        """Of a base or a try."""
        config = self.config
        common = config.training() | {"seed": stage.seed}
        if stage.kind == "base":
            return build(TrainConfig, common)
        tuning = asdict(config.tuning)
        shared = ("epochs", "decay", "decay_factor", "patience", "early_stopping")
        second = {"learning_rate": self.rate(stage), **{name: tuning[name] for name in shared}}
        batches = {"data": {"batch_size": config.tuning.batch_size}} if config.tuning.batch_size else {}
        values = merged(merged(common, {"optimizer": second, **batches}), self.branches[stage.branch].overrides)
        return build(TrainConfig, values)

    def is_done(self, stage: PlannedStage) -> bool:
        """Whether nothing is left to do; what it needs must be done. Another run in its place is an error.

        A base that nothing was tuned from yet goes on where more epochs are asked for.
        """
        directory = self.directory(stage)
        if stage.kind == "test":
            return all(evaluation_file(directory, "test", beam, "json").exists() for beam in (1, self.config.beam))
        about = read_about(directory) if directory.is_dir() else None
        if about is None:
            return False
        if not (directory / CONFIG).exists():  # killed before it was written
            return False
        saved, wanted = build(TrainConfig, read_toml(directory / CONFIG)), self.settings(stage)
        goes_on = stage.kind == "base" and wanted.optimizer.epochs > saved.optimizer.epochs and _is_alone(directory)
        _check_same(saved, wanted, directory, (*MAY_DIFFER, EPOCHS) if goes_on else MAY_DIFFER)
        return not goes_on and about["status"] == "finished" and (directory / SUMMARY).exists()

    def request(self, stage: PlannedStage) -> dict[str, Any]:
        """What a worker is told, as JSON holds it."""
        directory = self.directory(stage)
        told: dict[str, Any] = {"kind": stage.kind, "directory": str(directory), "log": str(self.log(stage))}
        if stage.kind == "test":
            return told | {"beams": [1, self.config.beam], "device": self.config.device}
        initial = None if stage.kind == "base" else str(directory.parent / BASE)
        return told | {"settings": asdict(self.settings(stage)), "initial": initial}


def _is_alone(base: Path) -> bool:
    """Whether no run beside it starts from its weights."""
    return all(run.parent == base for run in base.parent.glob(f"*/{ABOUT}"))


def _check_same(
    saved: TrainConfig, wanted: TrainConfig, directory: Path, may_differ: Sequence[tuple[str, ...]]
) -> None:
    for path, before, now in differences(saved, wanted):
        if path not in may_differ:
            raise FailureError(
                f"{directory} was made with {'.'.join(path)} = {before!r}, and {now!r} is asked for now; choose "
                "another directory with --output, or begin again with --overwrite"
            )


def read_scores(directory: Path, beam: int) -> dict[str, Any]:
    """The scores of the test set."""
    return _read_table(evaluation_file(directory, "test", beam, "json"))


def read_summary(directory: Path) -> dict[str, Any]:
    """What a training run came to."""
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
    """How many there are of each kind, in words."""
    names = {"base": "base runs", "try": "tuning runs", "test": "tests"}
    return ", ".join(f"{words} {sum(stage.kind == kind for stage in stages)}" for kind, words in names.items())


def rate_name(rate: float) -> str:
    """A learning rate as short as it can be said.

    Example:
        >>> rate_name(1e-4), rate_name(0.00025), rate_name(3.0)
        ('1e-4', '2.5e-4', '3e0')
    """
    mantissa, exponent = f"{rate:.5e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
