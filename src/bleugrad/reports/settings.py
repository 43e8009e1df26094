"""The part of a report that says how the run was made: command, settings, versions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bleugrad.reports import page
from bleugrad.runs.directory import CONFIG, SavedRun


def provenance(run: SavedRun) -> Iterator[str]:
    """The command, all settings and all versions."""
    yield from command_part(run)
    yield from settings_tables(run)


def command_part(run: SavedRun) -> Iterator[str]:
    """The command that repeats the run."""
    yield page.paragraph("The command that repeats this run:")
    yield page.preformatted(run.about["command"])


def settings_tables(run: SavedRun) -> Iterator[str]:
    """All settings and all versions."""
    yield page.table(["setting", "value"], _rows(run.config), f"All settings, as in {CONFIG}.")
    versions: Mapping[str, str] = run.about["versions"]
    yield page.table(["", "version"], [[name, version] for name, version in versions.items()], "Versions.")


def _rows(config: Mapping[str, Any], prefix: str = "") -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for name, value in config.items():
        if isinstance(value, Mapping):
            rows += _rows(value, f"{prefix}{name}.")
        else:
            rows.append([prefix + name, " ".join(map(str, value)) if isinstance(value, list) else str(value)])
    return rows
