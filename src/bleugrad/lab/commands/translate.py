"""``bleugrad translate``: translate standard input to standard output, line by line."""

import select
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from bleugrad.lab.commands.options import BEAM, DEVICE, PENALTY, SEARCH
from bleugrad.lab.errors import FailureError, UsageError

CHUNK = 1 << 16
MOST_BYTES = 1 << 24
"""Largest size of a line."""


def configure(parser: ArgumentParser) -> None:
    """The run and the search."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a training run")
    parser.add_argument("--beam", type=int, metavar="N", help=BEAM)
    parser.add_argument(
        "--n-best", type=int, default=0, metavar="N", help="translations per line, as: line TAB score TAB translation"
    )
    parser.add_argument("--scores", action="store_true", help="print the score and a tab before each translation")
    parser.add_argument(
        "--batch", type=int, default=64, metavar="N", help="largest number of lines per batch (default: %(default)s)"
    )
    parser.add_argument("--search", choices=("beam", "mbr"), default="beam", help=SEARCH)
    parser.add_argument("--skip-penalty", type=float, metavar="X", help=PENALTY)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help=DEVICE)


def execute(arguments: Namespace) -> None:
    """Translate line by line until the input ends."""
    for name, least in (("beam", 1), ("n_best", 0), ("batch", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise UsageError(f"{name} is {value}; expected at least {least}")
    _check_n_best(arguments.n_best, arguments.beam or 5)
    import torch

    from bleugrad.lab.training.system import Translation, load

    torch.set_num_threads(1)
    system = load(arguments.run, arguments.device, arguments.skip_penalty)
    beam = None if arguments.search == "mbr" else system.beam(arguments.beam)
    if arguments.search == "mbr" and (arguments.beam or arguments.n_best):
        raise UsageError("beam or n_best is given with search 'mbr'; expected neither")
    _check_n_best(arguments.n_best, beam or 1, f", the default of a {system.config.model.kind} model")
    if sys.stdin.isatty():
        print("type a sentence and press Enter; Ctrl-D ends", file=sys.stderr)

    def shown(number: int, found: list[Translation]) -> str:
        if arguments.n_best:
            return "".join(f"{number}\t{one.score:.4f}\t{one.text}\n" for one in found)
        return f"{found[0].score:.4f}\t{found[0].text}\n" if arguments.scores else f"{found[0].text}\n"

    number = 0
    for lines in arriving_lines(sys.stdin.buffer, arguments.batch):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            translations = system.search(lines, beam, max(1, arguments.n_best), number + 1, arguments.search)
        for warning in caught:
            print(f"bleugrad translate: {warning.message}", file=sys.stderr)
        for found in translations:
            number += 1
            sys.stdout.write(shown(number, found))
        sys.stdout.flush()


def _check_n_best(n_best: int, beam: int, reason: str = "") -> None:
    if n_best > beam:
        raise UsageError(f"n_best is {n_best}; expected at most beam = {beam}{reason}")


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
