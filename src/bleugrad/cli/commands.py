"""All subcommands, in the order ``bleugrad --help`` shows them. A new one is a module and a line here."""

from bleugrad.cli import data, evaluate, explain, report, reproduce, toy, train, translate, tune
from bleugrad.cli.command import Command

COMMANDS: tuple[Command, ...] = (
    train.COMMAND,
    tune.COMMAND,
    evaluate.COMMAND,
    translate.COMMAND,
    data.COMMAND,
    reproduce.COMMAND,
    explain.COMMAND,
    toy.COMMAND,
    report.COMMAND,
)
