"""``bleugrad reproduce``: the paper's translation experiment, from a corpus to tables and figures."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from bleugrad.cli.command import Command, add_run_arguments
from bleugrad.cli.options import given_options, option_words
from bleugrad.errors import UsageError
from bleugrad.experiments.paper.branches import KNOWN
from bleugrad.experiments.paper.config import ReproduceConfig
from bleugrad.experiments.paper.presets import PRESETS, configured, preset
from bleugrad.extras import require_extra
from bleugrad.runs.directory import CONFIG, REPORT, Run, read_run


def configure(parser: ArgumentParser) -> None:
    """A preset, how many stages at a time, and everything that can be set."""
    parser.add_argument("--preset", metavar="NAME", help=f"settings to begin with: {', '.join(PRESETS)}")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="stages at a time (default: %(default)s)")
    parser.add_argument(
        "--branches",
        metavar="NAME,NAME,...",
        help=f"second phases to run: built-in ones ({', '.join(KNOWN)}), or tables [branches.NAME] of FILE.toml",
    )
    add_run_arguments(parser, ReproduceConfig, Path("runs", "reproduce"))
    parser.description = (
        f"{COMMAND.summary[0].upper()}{COMMAND.summary[1:]}. Rerun the command to resume; a finished run redraws "
        "its report. --overwrite starts from scratch."
    )


def execute(arguments: Namespace) -> None:
    """Carry out what is left, then show the results."""
    if arguments.jobs < 1:
        raise UsageError(f"jobs is {arguments.jobs}; expected at least 1")
    require_extra("plots", "matplotlib", "the report")
    before = preset(arguments.preset) if arguments.preset else {}
    names = None if arguments.branches is None else arguments.branches.split(",")
    config = configured(before, arguments.config, given_options(arguments), names)
    from bleugrad.experiments.paper.study import reproduce

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
    """The results so far: on the screen, and as a report."""
    from bleugrad.reports.paper import write_report
    from bleugrad.reports.paper_texts import terminal_text

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
