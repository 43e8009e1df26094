"""The run directory: written while a study runs, read by its report.

config.toml     the resolved settings, for ``--config``
run.json        study, status, command, seed, versions, times; seconds add up over resumes
log.txt         the printed output
metrics.jsonl   every measurement, one JSON record per line; the same in every run of the same command
timings.jsonl   how long parts of a training run took, one JSON record per line
summary.json    the results
figures/        PNG and SVG
report.html     the results on one page
"""

import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import bleugrad
from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.runs.files import RecordWriter, read_json, read_records, write_json, write_text
from bleugrad.lab.runs.forms import NUMBER, TEXT, Form, Rule, check_form
from bleugrad.lab.runs.lock import LOCK
from bleugrad.lab.settings.loading import read_toml

CONFIG, ABOUT, LOG, METRICS = "config.toml", "run.json", "log.txt", "metrics.jsonl"
SUMMARY, FIGURES, REPORT, TIMINGS = "summary.json", "figures", "report.html", "timings.jsonl"
EVALUATIONS = "evaluations"
PACKAGES = ("torch", "numpy", "matplotlib", "sacrebleu", "safetensors", "tokenizers", "lightning-fabric")
STATUSES = ("running", "finished", "interrupted", "failed")
FORM: dict[str, Form] = {
    "study": TEXT,
    "status": Rule(f"one of {', '.join(STATUSES)}", lambda value: value in STATUSES),
    "command": TEXT,
    "seed": Rule("a whole number", lambda value: type(value) is int),
    "started": TEXT,
    "versions": Rule(
        "a table of text", lambda found: isinstance(found, dict) and all(map(TEXT.allows, found.values()))
    ),
    "seconds": NUMBER,
    "resumed": [TEXT],
    "reason": TEXT,
}
"""Schema of run.json; ``study`` and ``status`` are required."""


@dataclass
class Run(AbstractContextManager["Run"]):
    """A context that writes a run; at its end run.json says ``finished``, ``interrupted`` or ``failed``."""

    path: Path
    about: dict[str, Any]
    records: RecordWriter = field(repr=False)
    began: float = field(default_factory=time.monotonic, repr=False)

    def record(self, **values: Any) -> None:
        """Append one measurement to metrics.jsonl."""
        self.records.write(values)

    def record_time(self, **values: Any) -> None:
        """Append a duration to timings.jsonl."""
        with closing(RecordWriter(self.path / TIMINGS)) as timings:
            timings.write(values)

    def summarise(self, summary: Mapping[str, Any]) -> None:
        """Write the results."""
        write_json(self.path / SUMMARY, summary)

    def say(self, text: str) -> None:
        """Print, and keep in log.txt."""
        print(text, flush=True)
        with (self.path / LOG).open("a", encoding="utf-8") as log:
            log.write(text + "\n")

    def __exit__(self, *raised: Any) -> None:
        self.records.close()
        self.about["seconds"] = round(self.about.get("seconds", 0) + time.monotonic() - self.began, 1)
        try:
            _write_end(self.path, self.about, raised[1])
        except KeyboardInterrupt as late:
            _write_end(self.path, self.about, late)
            raise


def _write_end(path: Path, about: dict[str, Any], error: BaseException | None) -> None:
    """Write how a run ended. An error of the disk here does not hide the first error."""
    if error is None:
        write_json(path / ABOUT, about | {"status": "finished"})
        return
    status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
    with suppress(OSError):
        write_json(path / ABOUT, about | {"status": status, "reason": f"{type(error).__name__}: {error}".rstrip(": ")})


@contextmanager
def _opening(path: Path, about: dict[str, Any]) -> Iterator[None]:
    """Write the status "running" first, so that the directory is known as a run, and "failed" after an error."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / ABOUT, about)
        yield
    except BaseException as error:
        _write_end(path, about, error)
        if isinstance(error, OSError):
            raise FailureError(f"cannot write the run to {path}: {error.strerror}") from None
        raise


def start_run(path: Path, *, study: str, config: str, seed: int, command: str, overwrite: bool = False) -> Run:
    """Prepare the directory and write how the run is made.

    An unfinished run is replaced, a finished one only with ``overwrite``, and a directory of anything else never. Only
    files that a run writes are removed. ``config`` is TOML, ``study`` names the report, ``command`` repeats the run.
    """
    _check_free(path, overwrite)
    about = {"study": study, "status": "running", "command": command, "seed": seed}
    about |= {"started": _now(), "versions": versions()}
    with _opening(path, about):
        (path / FIGURES).mkdir(exist_ok=True)
        _remove_old(path)
        write_text(path / CONFIG, config)
        return Run(path, about, RecordWriter(path / METRICS))


def continue_run(
    path: Path, *, config: str, records_end: int | None = None, command: str | None = None, seed: int | None = None
) -> Run:
    """Resume an interrupted run; ``command`` and ``seed`` replace those in run.json.

    Records after ``records_end``, the size of metrics.jsonl at the checkpoint, are removed: they will be written again.
    """
    about, records = require_about(path), path / METRICS
    if records_end is not None:
        check_records(records, records_end)
    about = {key: value for key, value in about.items() if key != "reason"}
    about |= {"status": "running", "resumed": [*about.get("resumed", []), _now()], "versions": versions()}
    about |= {key: value for key, value in (("command", command), ("seed", seed)) if value is not None}
    with _opening(path, about):
        if records_end is not None:
            os.truncate(records, records_end)
        (path / SUMMARY).unlink(missing_ok=True)
        write_text(path / CONFIG, config)
        return Run(path, about, RecordWriter(records))


def versions() -> dict[str, str]:
    """Versions of what can change the numbers: this package, Python, the machine, and installed libraries."""
    system = f"{platform.system()} {platform.machine()}"
    found = {"bleugrad": bleugrad.__version__, "python": platform.python_version(), "platform": system}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def check_records(path: Path, end: int) -> None:
    """Raise unless a file of records has ``end`` bytes of whole lines."""
    content = path.read_bytes() if path.exists() else b""
    if len(content) < end:
        raise FailureError(
            f"{path} has {len(content)} bytes, and {end} when the checkpoint was written: records are lost"
        )
    if content[:end][-1:] not in (b"", b"\n"):
        raise FailureError(f"no record of {path} ends at byte {end}, as one did when the checkpoint was written")


@dataclass(frozen=True)
class SavedRun:
    """A run read back."""

    path: Path
    about: dict[str, Any]
    config: dict[str, Any]
    records: list[dict[str, Any]]
    summary: dict[str, Any]


def read_run(path: Path) -> SavedRun:
    """A saved run; one without a summary is an error."""
    about = require_about(path)
    try:
        summary = read_json(path / SUMMARY)
        return SavedRun(path, about, read_toml(path / CONFIG), read_records(path / METRICS), summary)
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise FailureError(f"the run in {path} is {about['status']} and has no {missing}: run it to its end") from None
    except UsageError as error:
        raise FailureError(f"the run in {path} cannot be read: {error}") from None


def evaluation_file(run: Path, split: str, beam: int | str, kind: str) -> Path:
    """The scores ("json") or translations ("txt") of a split; ``beam`` is the width, or the name of another search."""
    search = beam if isinstance(beam, str) else "greedy" if beam == 1 else f"beam{beam}"
    return run / EVALUATIONS / f"{split}.{search}.{kind}"


def remove_evaluations(run: Path) -> None:
    """Remove translations and scores of best weights that are replaced."""
    for kind in ("txt", "json"):
        for path in (run / EVALUATIONS).glob(f"*.{kind}"):
            path.unlink()


def _check_free(path: Path, overwrite: bool) -> None:
    if path.exists() and not path.is_dir():
        raise FailureError(f"{path} is a file; expected a directory, or nothing, there")
    names = [entry.name for entry in path.iterdir()] if path.is_dir() else []
    if all(name == LOCK or name.startswith(f".{ABOUT}.") for name in names):  # the latter of a killed process
        return
    about = read_about(path)
    if about is None:
        raise FailureError(f"{path} is not empty and holds no run; choose another directory with --output")
    if about["status"] == "finished" and not overwrite:
        raise FailureError(
            f"{path} holds a finished run; choose another directory with --output, or replace it with --overwrite"
        )


def read_about(path: Path) -> dict[str, Any] | None:
    """The content of run.json; None if there is none."""
    try:
        about = read_json(path / ABOUT)
    except FileNotFoundError:
        return None
    if not isinstance(about, dict) or "status" not in about or "study" not in about:
        raise FailureError(f"{path / ABOUT} is not the {ABOUT} of a run")
    try:
        known = {key: value for key, value in about.items() if key in FORM}
        check_form(known, {key: FORM[key] for key in known}, ABOUT)
    except (ValueError, RecursionError) as error:
        raise FailureError(f"{path / ABOUT} is damaged: {error}") from None
    return about


def require_about(path: Path) -> dict[str, Any]:
    """The content of run.json, which must exist."""
    about = read_about(path)
    if about is None:
        raise FailureError(f"{path} holds no run: there is no {ABOUT} in it")
    return about


def _remove_old(path: Path) -> None:
    for name in (SUMMARY, REPORT, METRICS, TIMINGS, LOG):
        (path / name).unlink(missing_ok=True)
    for file in (path / FIGURES).iterdir():
        if file.suffix in (".png", ".svg"):
            file.unlink()


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
