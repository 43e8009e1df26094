"""The part of a report that says how the run was made: command, settings, versions."""

from collections.abc import Iterator

from bleugrad.lab.reports import page
from bleugrad.lab.runs.directory import CONFIG, SavedRun
from bleugrad.lab.settings.loading import flat


def command_part(run: SavedRun) -> Iterator[str]:
    """The command that repeats the run."""
    yield page.paragraph("The command that repeats this run:")
    yield page.preformatted(run.about["command"])


def settings_tables(run: SavedRun) -> Iterator[str]:
    """All settings and all versions."""
    settings = [
        (name, " ".join(map(str, value)) if isinstance(value, list) else str(value)) for name, value in flat(run.config)
    ]
    yield page.table(["setting", "value"], settings, f"All settings, as in {CONFIG}.")
    yield page.table(["", "version"], run.about["versions"].items(), "Versions.")
