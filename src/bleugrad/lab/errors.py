"""Errors that are not bugs: the command line shows them as one line and ends with their exit code."""


class UsageError(ValueError):
    """The command or its configuration is wrong: exit code 2."""


class FailureError(RuntimeError):
    """The command was right and could not be carried out: exit code 1."""
