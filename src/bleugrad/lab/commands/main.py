"""The entry point: parse, run, and turn errors into one line and an exit code."""

import os
import sys
import textwrap
from argparse import Action, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import dataclass
from signal import Signals
from types import ModuleType

from bleugrad import __version__
from bleugrad.lab.commands import data, evaluate, report, reproduce, toy, train, translate, tune
from bleugrad.lab.commands.options import check_plain_options
from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.runs.lock import Terminated
from bleugrad.lab.settings.loading import suggestion


@dataclass(frozen=True)
class Command:
    """A subcommand, with a one-line summary and a complete example for ``--help``.

    ``module.configure(parser)`` adds the arguments and must not load large libraries, because ``--help`` calls it.
    ``module.execute(arguments)`` does the work.
    """

    module: ModuleType
    summary: str
    example: str

    @property
    def name(self) -> str:
        """The word on the command line."""
        return self.module.__name__.rpartition(".")[2]


COMMANDS = (
    Command(train, "train a translation model on a corpus", "bleugrad train --preset tiny --output runs/tiny"),
    Command(
        tune,
        "continue training from the best weights of a run, with another objective",
        "bleugrad tune runs/tiny --output runs/tiny-recommended",
    ),
    Command(
        evaluate,
        "translate a split with a trained model and score it by sacreBLEU",
        "bleugrad evaluate runs/tiny --split test --beam 5",
    ),
    Command(translate, "translate standard input line by line with a trained model", "bleugrad translate runs/tiny"),
    Command(
        data,
        "fetch, verify and prepare a corpus, and show what is in it; without options, list the corpora",
        "bleugrad data --corpus builtin --builtin-train 1000 --samples 5",
    ),
    Command(
        reproduce,
        "rerun the paper's experiment: cross-entropy, then each objective from the same weights",
        "bleugrad reproduce --preset builtin --seeds 2 --jobs 2 --output runs/builtin",
    ),
    Command(
        toy,
        "optimise free logits against a random reference, as in the paper's figures 1 and 2",
        "bleugrad toy --orders 2 --seeds 3 --method exact --output runs/toy-exact",
    ),
    Command(report, "redraw the figures and the page of a run of toy or reproduce", "bleugrad report runs/toy"),
)


DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

    Other signals that end a run give 128 plus their number: 143 for SIGTERM. ``words`` default to those of the process.
    """
    for name, stream in (("input", sys.stdin), ("output", sys.stdout), ("error", sys.stderr)):
        if stream is None:  # the next file opened would take its place
            print(f"bleugrad: standard {name} is closed; redirect it, for example to {os.devnull}", file=sys.stderr)
            return FAILED
    parser, parsers = build_parser()
    arguments, unknown = parser.parse_known_args(words)
    if arguments.command is None:
        parser.print_help()
        return WRONG_USAGE
    own_parser, command = parsers[arguments.command]
    try:
        _refuse(unknown, own_parser)
        check_plain_options(arguments)
        command.module.execute(arguments)
        sys.stdout.flush()
    except UsageError as error:
        return _complain(own_parser, f"{error}\ntry: {own_parser.prog} --help", WRONG_USAGE)
    except FailureError as error:
        return _complain(own_parser, str(error), FAILED)
    except Terminated as error:
        return _complain(own_parser, f"interrupted by {error}", 128 + Signals[str(error)])
    except KeyboardInterrupt:
        return _complain(own_parser, "interrupted", INTERRUPTED)
    except BrokenPipeError:  # nobody reads the output any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (OSError, MemoryError, RuntimeError) as error:
        reason = _outside_reason(error)
        if reason is None:
            raise
        return _complain(own_parser, reason, FAILED)
    return DONE


class Help(RawDescriptionHelpFormatter):
    """Keeps the lines of an example, fills a description, and puts the summary of a command beside its name."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)

    def add_argument(self, action: Action) -> None:
        """Add an argument; the names of commands are indented, for which argparse leaves no room."""
        super().add_argument(action)
        if isinstance(action.choices, dict):
            self._action_max_length = max(self._action_max_length, 4 + max(map(len, action.choices)))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else textwrap.fill(text, width)


def build_parser() -> tuple[ArgumentParser, dict[str, tuple[ArgumentParser, Command]]]:
    """The parser, and the parser of each command by name."""
    parser = ArgumentParser(
        prog="bleugrad",
        description="Train sequence models directly on BLEU, without sampling.",
        epilog=f"example:\n  {COMMANDS[0].example}\n\n`bleugrad COMMAND --help` shows the options of a command.",
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"bleugrad {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    parsers = {}
    for command in COMMANDS:
        own = subparsers.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}.",
            epilog=f"example:\n  {command.example}",
            formatter_class=Help,
            allow_abbrev=False,
        )
        command.module.configure(own)
        parsers[command.name] = own, command
    return parser, parsers


def _refuse(unknown: Sequence[str], parser: ArgumentParser) -> None:
    """Raise for the first unknown argument, with the most similar option."""
    if not unknown:
        return
    name = unknown[0].split("=")[0]
    if not name.startswith("-"):
        raise UsageError(f"unexpected argument {name!r}")
    known = {option: None for action in parser._actions for option in action.option_strings}
    raise UsageError(f"unknown option {name!r}{suggestion(name, known)}")


def _outside_reason(error: OSError | MemoryError | RuntimeError) -> str | None:
    """The message for errors of the machine (disk full, no permission, no memory); None for a bug."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    memory = ("allocate memory", "out of memory", "Storage size calculation overflowed")
    if isinstance(error, MemoryError) or any(words in str(error) for words in memory):
        return "not enough memory for these settings"
    if "home directory" in str(error):  # of Path.expanduser
        return "the home directory of ~ is unknown; write the full path"
    return None


def _complain(parser: ArgumentParser, message: str, code: int) -> int:
    print(f"{parser.prog}: {message}", file=sys.stderr)
    return code
