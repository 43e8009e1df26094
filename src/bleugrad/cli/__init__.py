"""The command line: one module a subcommand, registered in ``commands``."""
