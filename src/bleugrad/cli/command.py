"""What a subcommand is, and how one that makes a run is built from its configuration."""

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bleugrad.cli.options import add_options, given_options, option_words
from bleugrad.configuration.loading import load
from bleugrad.configuration.stage import RunStage, Stage
from bleugrad.configuration.writing import to_toml
from bleugrad.runs.directory import Run, start_run
from bleugrad.runs.lock import locked


@dataclass(frozen=True)
class Command:
    """A subcommand.

    Attributes:
        name: the word on the command line.
        summary: one line, shown by ``bleugrad --help``.
        example: a command that works as it stands.
        configure: adds the arguments; must load nothing heavy, since ``--help`` calls it.
        execute: does the work.
    """

    name: str
    summary: str
    example: str
    configure: Callable[[ArgumentParser], None]
    execute: Callable[[Namespace], None]


def add_run_arguments(
    parser: ArgumentParser, config_type: type[Stage], output: Path | None, shown: str = "%(default)s"
) -> None:
    """The arguments of a command that writes a run: where from, where to, and its settings.

    Args:
        parser: of the command.
        config_type: its settings.
        output: the run's directory by default, None where that depends on other arguments.
        shown: the default in words.
    """
    parser.add_argument("--config", type=Path, metavar="FILE.toml", help="settings; options given here override it")
    parser.add_argument(
        "--output", type=Path, default=output, metavar="DIR", help=f"the run's directory (default: {shown})"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a finished run in that directory")
    add_options(parser, config_type)


ConfigT = TypeVar("ConfigT", bound=RunStage)


def run_command(
    name: str, summary: str, example: str, config_type: type[ConfigT], work: Callable[[ConfigT, Run], None]
) -> Command:
    """A subcommand that writes a run directory; options come from the settings' fields.

    Args:
        name: the word on the command line; also the study in run.json, and runs/NAME the directory by default.
        summary: one line.
        example: a command that works as it stands.
        config_type: its settings; they have a ``seed``.
        work: fills the run.
    """

    def configure(parser: ArgumentParser) -> None:
        add_run_arguments(parser, config_type, Path("runs", name))

    def execute(arguments: Namespace) -> None:
        config = load(config_type, arguments.config, given_options(arguments))
        words = ["bleugrad", name, *option_words(config), "--output", str(arguments.output)]
        with (
            locked(arguments.output),
            start_run(
                arguments.output,
                study=name,
                config=to_toml(config),
                seed=config.seed,
                command=shlex.join(words),
                overwrite=arguments.overwrite,
            ) as run,
        ):
            work(config, run)

    return Command(name, summary, example, configure, execute)
