"""The entry point: parse, run, and turn errors into one line and an exit code."""

import os
import sys
import textwrap
from argparse import Action, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from signal import Signals

from bleugrad import __version__
from bleugrad.lab.commands import data, distil, evaluate, report, reproduce, toy, train, translate, tune
from bleugrad.lab.commands.options import check_plain_options
from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.runs.lock import Terminated
from bleugrad.lab.settings.loading import suggestion

COMMANDS = {
    module.__name__.rpartition(".")[2]: module
    for module in (train, tune, evaluate, translate, distil, data, reproduce, toy, report)
}
"""The module of each command.

``SUMMARY`` and ``EXAMPLE`` are for ``--help``. ``configure(parser)`` adds the arguments and must not load large
libraries, because ``--help`` calls it. ``execute(arguments)`` does the work.
"""
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
    own_parser = parsers[arguments.command]
    try:
        _refuse(unknown, own_parser)
        check_plain_options(arguments)
        COMMANDS[arguments.command].execute(arguments)
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


def build_parser() -> tuple[ArgumentParser, dict[str, ArgumentParser]]:
    """The parser, and the parser of each command by name."""
    parser = ArgumentParser(
        prog="bleugrad",
        description="Train sequence models directly on BLEU, without sampling.",
        epilog=f"example:\n  {train.EXAMPLE}\n\n`bleugrad COMMAND --help` shows the options of a command.",
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"bleugrad {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    parsers = {}
    for name, module in COMMANDS.items():
        parsers[name] = subparsers.add_parser(
            name,
            help=module.SUMMARY,
            description=f"{module.SUMMARY[0].upper()}{module.SUMMARY[1:]}.",
            epilog=f"example:\n  {module.EXAMPLE}",
            formatter_class=Help,
            allow_abbrev=False,
        )
        module.configure(parsers[name])
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
