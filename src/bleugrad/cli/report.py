"""``bleugrad report``: redraw the report of a saved run."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

from bleugrad.errors import FailureError
from bleugrad.extras import require_extra
from bleugrad.runs.directory import REPORT, read_run


def configure(parser: ArgumentParser) -> None:
    """The directory."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="a run directory")


def execute(arguments: Namespace) -> None:
    """Redraw the figures and the page."""
    study = read_run(arguments.directory).about["study"]
    require_extra("plots", "matplotlib", "drawing a report")
    _writer(study)(arguments.directory)
    print(f"report: {arguments.directory / REPORT}")


def _writer(study: str) -> Callable[[Path], None]:
    if study == "toy":
        from bleugrad.reports.toy.page import write_report

        return write_report
    if study == "reproduce":
        from bleugrad.reports.paper.page import write_report as write_paper_report

        return write_paper_report
    raise FailureError(f"there is no report for the study {study!r}")
