"""The run directory: written while a study runs, read by its report.

config.toml     the resolved settings, for ``--config``
run.json        study, status, command, seed, versions, times
log.txt         what was printed
metrics.jsonl   every measurement, one JSON record a line
summary.json    what the measurements come to
figures/        PNG and SVG
report.html     all of it on one page
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from bleugrad.configuration.loading import read_toml
from bleugrad.errors import FailureError, UsageError
from bleugrad.runs.files import write_text
from bleugrad.runs.provenance import versions
from bleugrad.runs.records import RecordWriter, read_records

CONFIG, ABOUT, LOG, METRICS = "config.toml", "run.json", "log.txt", "metrics.jsonl"
SUMMARY, FIGURES, REPORT = "summary.json", "figures", "report.html"


@dataclass
class Run:
    """A run being written, as a context: it ends ``finished``, ``interrupted`` or ``failed``, and says so on disk."""

    path: Path
    about: dict[str, Any]
    records: RecordWriter = field(repr=False)
    began: float = field(default_factory=time.monotonic, repr=False)

    def record(self, **values: Any) -> None:
        """Append one measurement to metrics.jsonl."""
        self.records.write(values)

    def summarise(self, summary: Mapping[str, Any]) -> None:
        """Write what the measurements come to."""
        write_text(self.path / SUMMARY, _json(summary))

    def say(self, text: str) -> None:
        """Print, and keep in log.txt."""
        print(text, flush=True)
        with (self.path / LOG).open("a", encoding="utf-8") as log:
            log.write(text + "\n")

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.records.close()
        status = "finished" if kind is None else "interrupted" if kind is KeyboardInterrupt else "failed"
        reason = {} if error is None else {"reason": f"{type(error).__name__}: {error}".rstrip(": ")}
        try:
            self._write_status(status, seconds=round(time.monotonic() - self.began, 1), **reason)
        except OSError:
            if error is None:  # otherwise what went wrong first is what must be said
                raise

    def _write_status(self, status: str, **more: Any) -> None:
        self.about |= {"status": status, **more}
        write_text(self.path / ABOUT, _json(self.about))


def start_run(path: Path, *, study: str, config: str, seed: int, command: str, overwrite: bool = False) -> Run:
    """Make the directory ready and write how the run is made.

    An unfinished run is replaced; a finished one only if told to, and a directory of anything else never. Of what is
    there, only files that a run writes are removed.

    Args:
        path: the directory, made if it does not exist.
        study: which report the run belongs to.
        config: the resolved settings as TOML.
        seed: of the run.
        command: the line that repeats it.
        overwrite: replace a finished run.
    """
    _check_free(path, overwrite)
    try:
        path.mkdir(parents=True, exist_ok=True)
        about = {
            "study": study,
            "status": "running",
            "command": command,
            "seed": seed,
            "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "versions": versions(),
        }
        write_text(path / ABOUT, _json(about))  # first, so that the directory is known for a run whatever happens next
        (path / FIGURES).mkdir(exist_ok=True)
        _remove_old(path)
        write_text(path / CONFIG, config)
        return Run(path, about, RecordWriter(path / METRICS))
    except OSError as error:
        raise FailureError(f"cannot write the run to {path}: {error.strerror}") from None


def continue_run(path: Path, *, config: str, records_end: int) -> Run:
    """Take up a run that was broken off.

    Args:
        path: its directory.
        config: the resolved settings as TOML.
        records_end: size of metrics.jsonl at the checkpoint; what was recorded after it will be recorded again.
    """
    about = read_about(path)
    if about is None:
        raise FailureError(f"{path} holds no run: there is no {ABOUT} in it")
    records = path / METRICS
    size = records.stat().st_size if records.exists() else 0
    if size < records_end:
        raise FailureError(
            f"{records} has {size} bytes, and {records_end} when the checkpoint was written: records are lost"
        )
    try:
        os.truncate(records, records_end)
        (path / SUMMARY).unlink(missing_ok=True)
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        about = {key: value for key, value in about.items() if key != "reason"}
        about |= {"status": "running", "resumed": [*about.get("resumed", []), now], "versions": versions()}
        write_text(path / CONFIG, config)
        write_text(path / ABOUT, _json(about))
        return Run(path, about, RecordWriter(records))
    except OSError as error:
        raise FailureError(f"cannot write the run to {path}: {error.strerror}") from None


@dataclass(frozen=True)
class SavedRun:
    """A run read back."""

    path: Path
    about: dict[str, Any]
    config: dict[str, Any]
    records: list[dict[str, Any]]
    summary: dict[str, Any]


def read_run(path: Path) -> SavedRun:
    """A run with its measurements; one that has no summary yet is an error in words."""
    about = read_about(path)
    if about is None:
        raise FailureError(f"{path} holds no run: there is no {ABOUT} in it")
    try:
        summary = json.loads((path / SUMMARY).read_text(encoding="utf-8"))
        return SavedRun(path, about, read_toml(path / CONFIG), read_records(path / METRICS), summary)
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise FailureError(f"the run in {path} is {about['status']} and has no {missing}: run it to its end") from None
    except (ValueError, UsageError) as error:
        raise FailureError(f"the run in {path} cannot be read: {error}") from None


def _check_free(path: Path, overwrite: bool) -> None:
    if path.exists() and not path.is_dir():
        raise FailureError(f"{path} is a file; expected a directory, or nothing, there")
    if not path.is_dir() or not any(_foreign(path)):
        return
    about = read_about(path)
    if about is None:
        raise FailureError(f"{path} is not empty and holds no run; choose another directory with --output")
    if about["status"] == "finished" and not overwrite:
        raise FailureError(
            f"{path} holds a finished run; choose another directory with --output, or replace it with --overwrite"
        )


def _foreign(path: Path) -> Iterator[Path]:
    """What is in a directory, but for a file that a killed process had begun to write before any other."""
    return (entry for entry in path.iterdir() if not entry.name.startswith(f".{ABOUT}."))


def read_about(path: Path) -> dict[str, Any] | None:
    """How the run was made and what became of it; None where there is no run."""
    try:
        about = json.loads((path / ABOUT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise FailureError(f"{path / ABOUT} cannot be read: {error}") from None
    if not isinstance(about, dict) or "status" not in about or "study" not in about:
        raise FailureError(f"{path / ABOUT} is not the {ABOUT} of a run")
    return about


def _remove_old(path: Path) -> None:
    for name in (SUMMARY, REPORT, METRICS, LOG):
        (path / name).unlink(missing_ok=True)
    for file in (path / FIGURES).iterdir():
        if file.suffix in (".png", ".svg"):
            file.unlink()


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"
