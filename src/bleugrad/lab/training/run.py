"""A training run, from settings to a directory with the files of :mod:`bleugrad.lab.runs.directory` and these.

vocabulary.source.json  tokens of the source, by id
vocabulary.target.json  tokens of the target
checkpoints/            last.safetensors to resume from, best.safetensors to translate with
evaluations/            translations and scores of ``bleugrad evaluate``
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from bleugrad.lab.data.corpus import Corpus
from bleugrad.lab.data.encoding import build_vocabularies, encode_split
from bleugrad.lab.data.preparation import prepare
from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.extras import require_translation
from bleugrad.lab.models.kinds import build_model
from bleugrad.lab.runs.directory import (
    CONFIG,
    Run,
    continue_run,
    read_about,
    remove_evaluations,
    require_about,
    start_run,
)
from bleugrad.lab.runs.lock import locked
from bleugrad.lab.settings.config import differences
from bleugrad.lab.settings.loading import build, read_toml, to_toml
from bleugrad.lab.training import checkpoints
from bleugrad.lab.training.checkpoints import BEST, FOLDER, LAST, Checkpoint, put_weights, read_checkpoint
from bleugrad.lab.training.config import TrainConfig
from bleugrad.lab.training.processes import SingleProcess, find_processes
from bleugrad.lab.training.run_state import seed_step
from bleugrad.lab.training.trainer import Trainer, TrainingSetup
from bleugrad.lab.training.vocabularies import Vocabularies, split_fingerprint

CHANGEABLE = {("optimizer", "epochs"), ("device",), ("threads",)}
"""Settings that may change when a run is resumed."""


def train_run(
    config: TrainConfig,
    directory: Path,
    *,
    initial: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    study: str = "train",
    command: str = "",
    processes: SingleProcess | None = None,
) -> dict[str, Any]:
    """Train, and fill a run directory; under ``torchrun``, as one of several processes.

    ``initial`` is a run that provides the initial weights (its best) and the vocabularies. ``resume`` continues the run
    in the directory, if there is one, and ``overwrite`` replaces it. ``study`` ("train" or "tune") and ``command``,
    which repeats the run, are for run.json. ``processes`` are those of several runs; created and closed by default.

    Returns the saved summary: best BLEU and its epoch, and ``history``, the validation scores of each epoch.
    """
    require_translation("training a translation model")
    if config.threads:
        torch.set_num_threads(config.threads)
    peers = processes or find_processes(config.device, config.optimizer.precision)
    with _locked_by_first(directory, peers):
        checkpoint = find_checkpoint(config, directory, resume, overwrite, study)
        corpus = _prepare_in_turn(config, peers)
        setup = _build_setup(config, corpus, directory, checkpoint, initial, peers.world)
        trainer = Trainer(setup, peers)
        if checkpoint is not None:
            trainer.restore(checkpoint, directory / FOLDER / LAST)
        peers.barrier()  # every rank checks before rank 0 writes
        first = peers.is_first
        with _open_run(config, directory, checkpoint, overwrite, study, command) if first else nullcontext() as run:
            trainer.run = run
            if run is not None:
                if checkpoint is not None:
                    run.say(f"resumed at step {trainer.position.step}")
                setup.vocabularies.write(directory)
                _describe(run, corpus, trainer, initial)
            summary = trainer.train()
    if processes is None:
        del trainer, setup  # they refer to the process group, whose threads live as long
        peers.close()
    return summary


@contextmanager
def _locked_by_first(directory: Path, processes: SingleProcess) -> Iterator[None]:
    """Rank 0 holds the lock for all ranks. If it cannot, every rank raises the error."""
    with ExitStack() as held:
        problem = ""
        if processes.is_first:
            try:
                held.enter_context(locked(directory))
            except FailureError as error:
                problem = str(error)
        problem = processes.gather(problem)[0]
        if problem:
            raise FailureError(problem)
        yield


def find_checkpoint(
    config: TrainConfig, directory: Path, resume: bool, overwrite: bool, study: str
) -> Checkpoint | None:
    """The checkpoint to resume from, None to start. An unfinished run is not replaced without ``overwrite``."""
    about = read_about(directory) if directory.is_dir() else None
    last = directory / FOLDER / LAST
    if about is None:
        return None
    if resume:
        if about["study"] != study:
            raise FailureError(f"{directory} holds a run of {about['study']!r}; expected one of {study!r} to resume")
        if not last.exists():
            return None
        _check_same_settings(config, directory)
        return read_checkpoint(last)
    if last.exists() and about["status"] != "finished" and not overwrite:
        raise FailureError(
            f"{directory} holds a run that is {about['status']}, with a checkpoint; resume it with --resume, replace "
            "it with --overwrite, or choose another directory with --output"
        )
    return None


def read_config(directory: Path) -> TrainConfig:
    """The settings of a training run."""
    about = require_about(directory)
    if about["study"] not in ("train", "tune"):
        raise FailureError(f"{directory} holds a run of {about['study']!r}; expected one of 'train' or 'tune'")
    try:
        return build(TrainConfig, read_toml(directory / CONFIG))
    except UsageError as error:
        raise FailureError(f"the settings of the run in {directory} cannot be read: {error}") from None


def _prepare_in_turn(config: TrainConfig, processes: SingleProcess) -> Corpus:
    """The corpus; rank 0 goes first, so that only one process downloads it."""
    if not processes.is_first:
        processes.barrier()
    corpus = prepare(config.data, ("train", "valid"))
    if processes.is_first:
        processes.barrier()
    if len(corpus.valid) == 0:
        raise FailureError(f"{corpus.name} has no validation text; it is needed to choose the best weights")
    return corpus


def _build_setup(
    config: TrainConfig,
    corpus: Corpus,
    directory: Path,
    checkpoint: Checkpoint | None,
    initial: Path | None,
    world: int,
) -> TrainingSetup:
    """Model and data, with the vocabularies of an earlier run. The trainer restores the weights of a checkpoint."""
    trained = directory if checkpoint is not None else initial
    vocabularies = (
        Vocabularies(*build_vocabularies(corpus, config.data)) if trained is None else Vocabularies.read(trained)
    )
    train = encode_split(corpus.train, vocabularies.source, vocabularies.target)
    seed_step(config.seed)
    model = build_model(config.model, len(vocabularies.source), len(vocabularies.target))
    fingerprints = {
        "vocabularies": vocabularies.fingerprints(),
        "data": split_fingerprint(corpus.train),
        "processes": world,
    }
    if checkpoint is not None:
        _check_same_ground(checkpoint, vocabularies, fingerprints, directory)
    elif initial is not None:
        if config.model.kind != (kind := read_config(initial).model.kind):
            found = f"model.kind is {config.model.kind!r}, and {kind!r} in the run in {initial}"
            raise UsageError(f"{found}; expected the same architecture to start from its weights")
        best = initial / FOLDER / BEST
        before = read_checkpoint(best)
        vocabularies.check_fit(before.state, initial, best)
        put_weights(model, before.weights, best)
    return TrainingSetup(
        config, model, vocabularies, train, corpus.valid, fingerprints, validate_first=initial is not None
    )


def _check_same_settings(config: TrainConfig, directory: Path) -> None:
    for path, before, now in differences(read_config(directory), config):
        cosine = config.optimizer.decay == "cosine" and path == ("optimizer", "epochs")  # ends with the last epoch
        if path not in CHANGEABLE or cosine:
            raise UsageError(
                f"{'.'.join(path)} is {now!r}, and {before!r} in the run in {directory}; expected the same to "
                "resume it, or no settings at all"
            )


def _check_same_ground(
    checkpoint: Checkpoint, vocabularies: Vocabularies, fingerprints: dict[str, Any], directory: Path
) -> None:
    path = directory / FOLDER / LAST
    vocabularies.check_fit(checkpoint.state, directory, path)
    if checkpoint.state["data"] != fingerprints["data"]:
        raise FailureError(f"the training text is not the one {path} was trained on; expected the same text to resume")
    if checkpoint.state["processes"] != fingerprints["processes"]:
        raise FailureError(
            f"{path} was written by a run of {checkpoint.state['processes']} processes; expected as many to resume, "
            f"found {fingerprints['processes']}"
        )


def _open_run(
    config: TrainConfig, directory: Path, checkpoint: Checkpoint | None, overwrite: bool, study: str, command: str
) -> Run:
    if checkpoint is not None:
        checkpoints.remove_unfinished(directory)
        return continue_run(directory, config=to_toml(config), records_end=checkpoint.state["records_end"])
    about = read_about(directory) if directory.is_dir() else None
    if about is not None and (overwrite or about["status"] != "finished"):
        checkpoints.remove_checkpoints(directory)
        remove_evaluations(directory)
    return start_run(
        directory, study=study, config=to_toml(config), seed=config.seed, command=command, overwrite=overwrite
    )


def _describe(run: Run, corpus: Corpus, trainer: Trainer, initial: Path | None) -> None:
    """Print data, model and objective."""
    run.say(f"{corpus.name}: {corpus.sizes()}")
    parameters = sum(parameter.numel() for parameter in trainer.parameters)
    vocabularies, processes = trainer.setup.vocabularies, trainer.processes
    feeding = "" if trainer.config.model.one_pass else getattr(trainer.config.objective, "feeding", "")
    fed = f", decoder fed {feeding}" if feeding else ""
    sizes = f"vocabularies of {len(vocabularies.source)} and {len(vocabularies.target)} tokens"
    run.say(
        f"model: {trainer.config.model.kind}, {parameters} parameters, {sizes}"
        f"{f', initial weights of {initial}' if initial else ''}; objective {trainer.config.objective.name}{fed}; "
        f"processes: {processes.world} ({processes.device})"
    )
