"""The protocol from settings to a filled directory: data, stages, summary."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.preparation import prepare_split
from bleugrad.lab.errors import FailureError
from bleugrad.lab.experiments.paper.config import ReproduceConfig
from bleugrad.lab.experiments.paper.plan import LOGS, PlannedStage, Protocol
from bleugrad.lab.experiments.paper.results import summarise
from bleugrad.lab.experiments.paper.scheduling.scheduler import Scheduler, find_done
from bleugrad.lab.runs.directory import Run, continue_run, read_about, start_run
from bleugrad.lab.runs.lock import locked
from bleugrad.lab.settings.loading import to_toml

STUDY = "reproduce"


def reproduce(
    config: ReproduceConfig, output: Path, *, jobs: int, command: str, overwrite: bool, show: Callable[[Run], None]
) -> None:
    """Run the protocol, or resume it, with ``jobs`` parallel stages; ``command`` repeats it.

    ``show`` is called when the summary was written: after each seed, and at the end.
    """
    protocol = Protocol(config, output)
    with locked(output):
        test = _test_split(config)
        done = set() if overwrite else find_done(protocol)  # before anything is written, because it may raise
        with _open_run(protocol, command, overwrite) as run:
            _run_stages(protocol, done, jobs, run, test, show)


def _open_run(protocol: Protocol, command: str, overwrite: bool) -> Run:
    """Start or resume the run; to overwrite it, every stage is removed first."""
    path, config, seed = protocol.output, to_toml(protocol.config), protocol.config.seed
    about = read_about(path)
    if about is not None and about["study"] != STUDY:
        raise FailureError(f"{path} holds a run of {about['study']!r}; choose another directory with --output")
    if about is not None and overwrite:
        remove_stages(path)
    if about is None or overwrite:
        return start_run(path, study=STUDY, config=config, seed=seed, command=command, overwrite=overwrite)
    return continue_run(path, config=config, command=command, seed=seed)


def _run_stages(
    protocol: Protocol, done: set[PlannedStage], jobs: int, run: Run, test: Split, show: Callable[[Run], None]
) -> None:
    seeds = protocol.config.run_seeds()

    def summarise_complete(done: set[PlannedStage]) -> None:
        complete = [seed for seed in seeds if _is_complete(protocol, done, seed)]
        if complete:
            run.summarise(summarise(protocol, complete, test))

    def after(stage: PlannedStage) -> None:
        if _is_complete(protocol, scheduler.done, stage.seed):
            summarise_complete(scheduler.done)
            if scheduler.waiting or scheduler.running:
                show(run)

    summarise_complete(done)
    scheduler = Scheduler(protocol, done, jobs, run, after)
    scheduler.execute()
    show(run)


def remove_stages(path: Path) -> None:
    """Remove the training runs of a protocol's directory, and nothing else."""
    abouts = {folder: read_about(folder) for folder in path.glob("seed-*/*") if folder.is_dir()}
    runs = [folder for folder, about in abouts.items() if about is not None and about["study"] in ("train", "tune")]
    with ExitStack() as locks:
        for folder in runs:  # lock all before removing the first
            locks.enter_context(locked(folder))
        for folder in runs:
            shutil.rmtree(folder)
    for log in path.glob(f"{LOGS}/seed-*.txt"):
        log.unlink()


def _test_split(config: ReproduceConfig) -> Split:
    """The test set. Preparing the corpus here downloads it once, before the workers start."""
    test = prepare_split(config.data, "test")
    if len(test) == 0:
        raise FailureError(
            f"the corpus {config.data.corpus!r} has no test text, which is needed to compare the branches"
        )
    return test


def _is_complete(protocol: Protocol, done: set[PlannedStage], seed: int) -> bool:
    return all(stage in done for stage in protocol.stages if stage.seed == seed)
