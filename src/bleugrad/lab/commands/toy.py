"""``bleugrad toy``: the paper's toy task (section 4.1), and where its bound exceeds the truth."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from bleugrad.lab.commands.options import add_run_arguments, given_options, option_words
from bleugrad.lab.experiments.toy.config import ToyConfig
from bleugrad.lab.extras import require_extra
from bleugrad.lab.runs.directory import REPORT, read_run, start_run
from bleugrad.lab.runs.lock import locked
from bleugrad.lab.settings.loading import load, to_toml

SUMMARY = "optimise free logits against a random reference, as in the paper's figures 1 and 2"
EXAMPLE = "bleugrad toy --orders 2 --seeds 3 --method exact --output runs/toy-exact"


def configure(parser: ArgumentParser) -> None:
    """All settings."""
    add_run_arguments(parser, ToyConfig, Path("runs", "toy"))


def execute(arguments: Namespace) -> None:
    """Run both studies, and write the report."""
    config, path = load(ToyConfig, arguments.config, given_options(arguments)), arguments.output
    command, toml = shlex.join(["bleugrad", "toy", *option_words(config), "--output", str(path)]), to_toml(config)
    overwrite = arguments.overwrite
    require_extra("plots", "matplotlib", "the report of the toy study")  # before anything is written
    with (
        locked(path),
        start_run(path, study="toy", config=toml, seed=config.seed, command=command, overwrite=overwrite) as run,
    ):
        import torch

        from bleugrad.lab.experiments.toy.study import run_study
        from bleugrad.lab.reports.toy.page import terminal_text, write_report

        torch.set_num_threads(1)  # for the same numbers on every machine
        run_study(config, run)
        write_report(run.path)
        run.say(f"{terminal_text(read_run(run.path))}\nreport: {run.path / REPORT}")
