"""All subcommands, in the order ``bleugrad --help`` shows them. A new one is a module and a line here."""

from bleugrad.cli import report, toy
from bleugrad.cli.command import Command

COMMANDS: tuple[Command, ...] = (toy.COMMAND, report.COMMAND)
