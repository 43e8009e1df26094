"""``bleugrad tune``: from the best weights of a run, on with another objective."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from bleugrad.cli.command import Command, add_run_arguments
from bleugrad.cli.options import given_options, option_words
from bleugrad.cli.train import add_objective, add_resume, chosen_settings
from bleugrad.configuration.loading import merged, read_toml
from bleugrad.runs.directory import CONFIG
from bleugrad.training.config import TrainConfig
from bleugrad.training.presets import TUNING


def configure(parser: ArgumentParser) -> None:
    """The run to start from, and everything that can be set."""
    parser.add_argument("run", type=Path, metavar="RUN", help="the run whose best weights to start from")
    add_resume(parser)
    add_objective(parser, "what to minimise: ce, bound, exact, reinforce, mrt or unbiased")
    add_run_arguments(parser, TrainConfig, None, "RUN-OBJECTIVE")
    rate, epochs = TUNING["optimizer"]["learning_rate"], TUNING["optimizer"]["epochs"]
    parser.description = (
        f"{COMMAND.summary.capitalize()}. Settings are those of the run, but a learning rate of {rate} and "
        f"{epochs} epochs, unless given here."
    )


def execute(arguments: Namespace) -> None:
    """Tune, or go on tuning."""
    from bleugrad.training.run import read_config, train_run

    read_config(arguments.run)  # a mistake in RUN is said as such
    before = merged(read_toml(arguments.run / CONFIG), TUNING)
    name = given_options(arguments).get("objective", {}).get("name", before["objective"]["name"])
    output = arguments.output or arguments.run.with_name(f"{arguments.run.resolve().name}-{name}")
    config = chosen_settings(arguments, before, output)
    train_run(
        config,
        output,
        initial=arguments.run,
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        study="tune",
        command=shlex.join(["bleugrad", "tune", str(arguments.run), *option_words(config), "--output", str(output)]),
    )


COMMAND = Command(
    name="tune",
    summary="start from the best weights of a run and train on with another objective",
    example="bleugrad tune runs/tiny --objective exact --output runs/tiny-exact",
    configure=configure,
    execute=execute,
)
