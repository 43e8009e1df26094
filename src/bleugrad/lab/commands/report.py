"""``bleugrad report``: redraw the report of a saved run."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from bleugrad.lab.errors import FailureError
from bleugrad.lab.extras import require_extra
from bleugrad.lab.runs.directory import REPORT, read_run

SUMMARY = "redraw the figures and the page of a run of toy or reproduce"
EXAMPLE = "bleugrad report runs/toy"


def configure(parser: ArgumentParser) -> None:
    """The directory."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="directory of a run of toy or reproduce")


def execute(arguments: Namespace) -> None:
    """Redraw the figures and the page."""
    study = read_run(arguments.directory).about["study"]
    require_extra("plots", "matplotlib", "drawing a report")
    if study == "toy":
        from bleugrad.lab.reports.toy.page import write_report
    elif study == "reproduce":
        from bleugrad.lab.reports.paper.page import write_report
    else:
        raise FailureError(f"a run of {study!r} has no report; expected a run of toy or reproduce")
    write_report(arguments.directory)
    print(f"report: {arguments.directory / REPORT}")
