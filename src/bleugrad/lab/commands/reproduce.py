"""``bleugrad reproduce``: the paper's translation experiment."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from bleugrad.lab.commands.options import add_run_arguments, given_options, option_words
from bleugrad.lab.experiments.paper.branches import KNOWN
from bleugrad.lab.experiments.paper.config import ReproduceConfig
from bleugrad.lab.experiments.paper.presets import PRESETS, configured
from bleugrad.lab.extras import require_extra, require_translation
from bleugrad.lab.runs.directory import CONFIG, REPORT, Run, read_run
from bleugrad.lab.training.presets import preset

SUMMARY = "rerun the paper's experiment: cross-entropy, then each objective from the same weights"
EXAMPLE = "bleugrad reproduce --preset builtin --seeds 2 --jobs 2 --output runs/builtin"


def configure(parser: ArgumentParser) -> None:
    """A preset, branches, the number of parallel stages, and all settings."""
    parser.add_argument(
        "--preset", metavar="NAME", help=f"named settings, which options override: {', '.join(PRESETS)}"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="number of parallel stages (default: %(default)s)"
    )
    parser.add_argument(
        "--branches",
        metavar="NAME,NAME,...",
        help=f"second phases to run: built-in ones ({', '.join(KNOWN)}), or tables [branches.NAME] of FILE.toml",
    )
    add_run_arguments(parser, ReproduceConfig, Path("runs", "reproduce"))
    parser.description = (
        f"{parser.description} Rerun the command to resume; a finished run redraws its report. --overwrite starts from "
        "scratch."
    )


def execute(arguments: Namespace) -> None:
    """Run the protocol or resume it, and show the results."""
    require_translation("the experiment")
    require_extra("plots", "matplotlib", "the report")
    before = preset(arguments.preset, PRESETS) if arguments.preset else {}
    names = None if arguments.branches is None else arguments.branches.split(",")
    config = configured(before, arguments.config, given_options(arguments), names)
    from bleugrad.lab.experiments.paper.study import reproduce

    where = ["--jobs", str(arguments.jobs), "--output", str(arguments.output)]
    reproduce(
        config,
        arguments.output,
        jobs=arguments.jobs,
        command=shlex.join(["bleugrad", "reproduce", *_settings_words(config, arguments.output), *where]),
        overwrite=arguments.overwrite,
        show=show,
    )


def _settings_words(config: ReproduceConfig, output: Path) -> list[str]:
    """The options that make this configuration; branches other than the built-in ones need its file."""
    if any(table != KNOWN.get(label) for label, table in config.branches.items()):
        return ["--config", str(output / CONFIG)]
    return [*option_words(config), "--branches", ",".join(config.branches)]


def show(run: Run) -> None:
    """Print the results so far, and write the report."""
    from bleugrad.lab.reports.paper.page import write_report
    from bleugrad.lab.reports.paper.tables import terminal_text

    write_report(run.path)
    run.say(f"\n{terminal_text(read_run(run.path).summary)}\n")
    run.say(f"report: {run.path / REPORT}")
