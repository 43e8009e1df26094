"""``bleugrad train``: train a translation model on a corpus."""

import os
import shlex
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path

from bleugrad.lab.commands.options import PREFIX, add_run_arguments, given_options, option_words
from bleugrad.lab.runs.directory import CONFIG
from bleugrad.lab.settings.loading import layered, read_toml
from bleugrad.lab.training.config import TrainConfig
from bleugrad.lab.training.presets import PRESETS, Settings, preset

SUMMARY = "train a translation model on a corpus"
EXAMPLE = "bleugrad train --preset tiny --output runs/tiny"


def configure(parser: ArgumentParser) -> None:
    """A preset, and all settings."""
    parser.add_argument(
        "--preset", metavar="NAME", help=f"named settings, which options override: {', '.join(PRESETS)}"
    )
    add_training_arguments(parser, "objective; short for --objective-name")
    add_run_arguments(parser, TrainConfig, Path("runs", "train"))


def execute(arguments: Namespace) -> None:
    """Train, or resume."""
    before: Settings = preset(arguments.preset) if arguments.preset else {}
    config = chosen_settings(arguments, before, arguments.output)
    from bleugrad.lab.training.run import train_run

    train_run(
        config,
        arguments.output,
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        command=shlex.join(["bleugrad", "train", *option_words(config), "--output", str(arguments.output)]),
    )
    show_next(arguments.output)


def show_next(output: Path) -> None:
    """Print where the run is and how to score it, once for all processes."""
    if on_first_process():
        print(f"run: {output}; score it with: {shlex.join(['bleugrad', 'evaluate', str(output)])}")


def on_first_process() -> bool:
    """Whether this process speaks for all."""
    return os.environ.get("RANK", "0") == "0"


def add_training_arguments(parser: ArgumentParser, help: str) -> None:
    """The options ``--resume`` and ``--objective``, the latter with its ``help``."""
    parser.add_argument("--resume", action="store_true", help="resume the run in that directory, if there is one")
    parser.add_argument("--objective", dest=f"{PREFIX}objective.name", default=SUPPRESS, metavar="NAME", help=help)


def chosen_settings(arguments: Namespace, before: Settings, output: Path) -> TrainConfig:
    """The settings given. Without a preset or a file, a resumed run keeps its own settings under the options."""
    chosen = getattr(arguments, "preset", None) or arguments.config
    if arguments.resume and not chosen and (output / CONFIG).exists():
        before = read_toml(output / CONFIG)
    return layered(TrainConfig, before, arguments.config, given_options(arguments))
