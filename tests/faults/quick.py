"""``python -m tests.faults.quick PART``: a few cases, then the same cases with defects put in, which must be found.

Prints the failures of each sweep as JSON. A defect is a function that replaces a part of bleugrad by a wrong one; the
workers are forked afterwards and have it, too.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from unittest import mock

import torch

import bleugrad
from bleugrad import expectation
from bleugrad.backends.c import library
from bleugrad.lab.runs.files import RecordWriter
from bleugrad.lab.training import checkpoints
from bleugrad.matches import exact
from tests.faults.__main__ import PARTS
from tests.faults.sweep import sweep


class EqualToAll(str):
    """A checksum that never differs."""

    __slots__ = ()

    def __ne__(self, other):
        return False

    __hash__ = str.__hash__


def raise_index_error(*arguments, **options):
    raise IndexError("list index out of range")


def scaled(function, factor):
    return lambda *arguments, **options: function(*arguments, **options) * factor


def narrowed(function):
    def interval(*arguments, **options):
        lower, upper = function(*arguments, **options)
        return lower, upper * 0.99

    return interval


def drop_last_record(writer, path):
    """Open a file of records, and lose the last one."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    path.write_bytes(b"".join(lines[:-1]))
    writer._file = path.open("ab", buffering=0)


def defect(place, name, wrong):
    return mock.patch.object(place, name, wrong)


SEEDS = {"calls": range(150), "cases": range(24), "kills": range(1), "files": range(4)}
LAST, LIBRARY = 0, [67, 803]
"""Seeds of a damaged checkpoint, and of a library that is cut off, where there is one."""

DEFECTS = {
    "calls": {
        "an IndexError": (defect(bleugrad.ExpectedBLEULoss, "forward", raise_index_error), range(30)),
        "NaN is accepted": (defect(bleugrad.matches.statistics, "check_rows", lambda *_: None), range(120)),
        "an infinite loss": (
            defect(bleugrad.losses.base.LossBase, "reduce", lambda *_: torch.tensor(1e39)),
            range(60),
        ),
    },
    "cases": {
        "wrong matches": (
            defect(exact, "completed_matches", scaled(exact.completed_matches, 1.001)),
            range(6),
        ),
        "a narrow interval": (
            defect(expectation, "certified_interval", narrowed(expectation.certified_interval)),
            range(24),
        ),
    },
    "kills": {"a resume that drops a record": (defect(RecordWriter, "__init__", drop_last_record), range(1))},
    "files": {
        "no checksum": (defect(checkpoints, "_checksum", lambda content: EqualToAll("0" * 64)), [LAST]),
        "no check of tensors": (defect(checkpoints, "_check_fit", lambda *_: None), [LAST]),
        "any library is loaded": (defect(library, "_check_size", lambda path: None), LIBRARY),
    },
}


def main(part):
    torch.set_num_threads(1)
    module = PARTS[part][0]
    with tempfile.TemporaryDirectory() as folder:
        check = module.prepare(Path(folder))
        if part == "files" and (not library._path("float").exists() or os.environ.get(library.SWITCH) == "0"):
            del DEFECTS[part]["any library is loaded"]  # there was no C compiler, or kernels are switched off
        found = {"none": sweep(part, check, SEEDS[part], module.SECONDS).failures}
        for name, (wrong, seeds) in DEFECTS[part].items():
            with wrong:
                found[name] = sweep(part, check, seeds, module.SECONDS).failures
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
