"""The two ways a command ends badly without being a bug: told apart by the exit code, both shown as one line."""


class UsageError(ValueError):
    """The command or its configuration is wrong: exit code 2."""


class FailureError(RuntimeError):
    """The command was right and could not be carried out: exit code 1."""
