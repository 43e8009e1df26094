"""``bleugrad translate``: translate standard input to standard output, line by line."""

import select
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import BinaryIO

from bleugrad.lab.commands.options import add_search_arguments
from bleugrad.lab.errors import FailureError

SUMMARY = "translate standard input line by line with a trained model"
EXAMPLE = "bleugrad translate runs/tiny"
CHUNK = 1 << 16
MOST_BYTES = 1 << 24
"""Largest size of a line."""


def configure(parser: ArgumentParser) -> None:
    """The search and the output."""
    add_search_arguments(parser)
    parser.add_argument(
        "--n-best", type=int, default=0, metavar="N", help="translations per line, as: line TAB score TAB translation"
    )
    parser.add_argument(
        "--batch", type=int, default=64, metavar="N", help="largest number of lines per batch (default: %(default)s)"
    )


def execute(arguments: Namespace) -> None:
    """Translate line by line until the input ends."""
    import torch

    from bleugrad.lab.training.system import load

    torch.set_num_threads(1)
    system = load(arguments.run, arguments.device, arguments.skip_penalty, arguments.precision)
    search = {"beam": arguments.beam, "n_best": max(1, arguments.n_best), "search": arguments.search}
    system.width(**search)  # raises before a line is read
    if sys.stdin.isatty():
        print("type a sentence and press Enter; Ctrl-D ends", file=sys.stderr)
    number = 0
    for lines in arriving_lines(sys.stdin.buffer, arguments.batch):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            translations = system.search(lines, first=number + 1, **search)
        for warning in caught:
            print(f"bleugrad translate: {warning.message}", file=sys.stderr)
        for found in translations:
            number += 1
            for one in found:
                listed = f"{number}\t{one.score:.4f}\t" if arguments.n_best else ""
                sys.stdout.write(f"{listed}{one.text}\n")
        sys.stdout.flush()


def arriving_lines(stream: BinaryIO, most: int) -> Iterator[list[str]]:
    """Lists of one to ``most`` lines of UTF-8; no line is held back while the stream has nothing more to read.

    Only a newline ends a line. A carriage return before it is removed, and the last line may have no newline.
    """
    number, rest = 0, b""
    waiting: list[str] = []
    read = getattr(stream, "read1", stream.read)  # read1 returns the available bytes
    while True:
        chunk = read(CHUNK)
        *ended, rest = (rest + chunk).split(b"\n")
        if not chunk and rest:
            ended, rest = [*ended, rest], b""
        for line in ended:
            number += 1
            try:
                waiting.append(line.decode("utf-8").removesuffix("\r"))
            except UnicodeDecodeError as error:
                if waiting:
                    yield waiting
                found = f"byte {error.start + 1} is 0x{line[error.start]:02x}"
                raise FailureError(f"line {number} of the input is not UTF-8: {found}") from None
            if len(waiting) == most:
                yield waiting
                waiting = []
        endless = len(rest) > MOST_BYTES
        if waiting and (endless or not chunk or not _has_more(stream)):
            yield waiting
            waiting = []
        if endless:
            raise FailureError(
                f"line {number + 1} of the input has more than {MOST_BYTES} bytes; expected at most that"
            )
        if not chunk:
            return


def _has_more(stream: BinaryIO) -> bool:
    """Whether a read returns at once; False if that is unknown."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return False
