"""Trains, is killed at the n-th moment at which the disk changes, resumes, and tells whether all files are the same.

Run as a program: `kill_points.py KIND CORPUS FOLDER [POINT ...]` with the kind of model; without points, at every one
there is. It forks, so that
torch is loaded once, and each child dies of SIGKILL as a killed process does: without cleaning up.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import torch

from bleugrad.lab.runs import files
from bleugrad.lab.training.run import train_run
from tests.lab.training.corpora import TRANSFORMER, small_config

COMPARED = (
    "checkpoints/last.safetensors",
    "checkpoints/best.safetensors",
    "metrics.jsonl",
    "summary.json",
    "vocabulary.source.json",
    "vocabulary.target.json",
    "config.toml",
)
RESULTS = "results: "
KINDS = {"lstm": {}, "transformer": TRANSFORMER}


class Moments:
    """Counts the moments and kills this process at one of them."""

    def __init__(self, fatal):
        self.fatal, self.seen = fatal, 0

    def __call__(self):
        self.seen += 1
        if self.seen == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self):
        """A write has passed its half, is on the disk, is renamed; a record is half written, is written."""
        fdopen, fsync, replace, write = os.fdopen, os.fsync, os.replace, files.RecordWriter.write

        class Halting:
            def __init__(self, file):
                self.file = file

            def __enter__(self):
                return self

            def __exit__(self, *error):
                self.file.close()

            def __getattr__(self, name):
                return getattr(self.file, name)

            def write(inner, content):
                inner.file.write(content[: len(content) // 2])
                inner.file.flush()
                self()
                inner.file.write(content[len(content) // 2 :])

        def record(writer, values):
            if self.seen + 1 == self.fatal:
                writer._file.write(b'{"kind": "st')
            self()
            write(writer, values)
            self()

        def synced(handle):
            fsync(handle)
            self()

        def replaced(old, new):
            self()
            replace(old, new)
            self()

        files.os.fdopen = lambda handle, mode: Halting(fdopen(handle, mode))
        os.fsync, os.replace, files.RecordWriter.write = synced, replaced, record


def in_child(work, *arguments):
    """The exit status of a forked child that does the work."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
            work(*arguments)
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def train(config, folder, resume, fatal, counted=None):
    moments = Moments(fatal)
    moments.install()
    train_run(config, folder, resume=resume)
    if counted is not None:
        counted.write_text(str(moments.seen))


def differences(folder, expected):
    return [name for name in COMPARED if (folder / name).read_bytes() != (expected / name).read_bytes()]


def main(kind, corpus, folder, *points):
    torch.set_num_threads(1)
    folder, config = Path(folder), small_config(Path(corpus), **KINDS[kind])
    whole, counted = folder / "whole", folder / "counted"
    train_run(config, whole)  # here, so that the children find everything loaded
    assert in_child(train, config, folder / "counting", False, 0, counted) == 0
    total = int(counted.read_text())
    results = {}
    for point in [int(point) for point in points] or range(1, total + 1):
        point = min(point, total)
        broken = folder / f"killed-{point}"
        died = in_child(train, config, broken, False, point)
        again = in_child(train, config, broken, True, 1 + point // 2)
        last = in_child(train, config, broken, True, 0)
        results[point] = {
            "killed": os.WIFSIGNALED(died) and os.WTERMSIG(died) == signal.SIGKILL,
            "again": os.WIFSIGNALED(again) or again == 0,
            "resumed": last == 0,
            "differences": differences(broken, whole) if last == 0 else None,
            "left": sorted(path.name for path in (broken / "checkpoints").iterdir()) if last == 0 else None,
        }
        shutil.rmtree(broken)
    print(RESULTS + json.dumps({"total": total, "results": results}))


if __name__ == "__main__":
    main(*sys.argv[1:])
