"""``bleugrad reproduce``: the paper's translation experiment, from a corpus to tables and figures."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from bleugrad.cli.command import Command, add_run_arguments
from bleugrad.cli.options import given_options, option_words
from bleugrad.errors import UsageError
from bleugrad.experiments.paper.config import ReproduceConfig
from bleugrad.experiments.paper.presets import PRESETS, configured, preset
from bleugrad.extras import require_extra, require_translation
from bleugrad.runs.directory import REPORT, Run, read_run


def configure(parser: ArgumentParser) -> None:
    """A preset, how many stages at a time, and everything that can be set."""
    parser.add_argument("--preset", metavar="NAME", help=f"settings to begin with: {', '.join(PRESETS)}")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="stages at a time (default: %(default)s)")
    add_run_arguments(parser, ReproduceConfig, Path("runs", "reproduce"))
    parser.description = (
        f"{COMMAND.summary[0].upper()}{COMMAND.summary[1:]}. Broken off, the same command goes on; done, it draws the "
        "report again; --overwrite begins anew."
    )


def execute(arguments: Namespace) -> None:
    """Carry out what is left, then show the results."""
    if arguments.jobs < 1:
        raise UsageError(f"jobs is {arguments.jobs}; expected at least 1")
    require_translation("the experiment")
    require_extra("plots", "matplotlib", "the report")
    config = configured(
        preset(arguments.preset) if arguments.preset else {}, arguments.config, given_options(arguments)
    )
    from bleugrad.experiments.paper.study import reproduce

    where = ["--jobs", str(arguments.jobs), "--output", str(arguments.output)]
    reproduce(
        config,
        arguments.output,
        jobs=arguments.jobs,
        command=shlex.join(["bleugrad", "reproduce", *option_words(config), *where]),
        overwrite=arguments.overwrite,
        show=show,
    )


def show(run: Run) -> None:
    """The results so far: on the screen, and as a report."""
    from bleugrad.reports.paper.page import write_report
    from bleugrad.reports.paper.texts import terminal_text

    write_report(run.path)
    run.say(f"\n{terminal_text(read_run(run.path).summary)}\n")
    run.say(f"report: {run.path / REPORT}")


COMMAND = Command(
    name="reproduce",
    summary="rerun the paper's experiment: cross-entropy, then each objective from the same weights",
    example="bleugrad reproduce --preset builtin --seeds 2 --jobs 2 --output runs/builtin",
    configure=configure,
    execute=execute,
)
