"""Lines of a byte stream as they arrive: many at once from a file, one at a time from a terminal."""

import select
from collections.abc import Iterator
from typing import BinaryIO

from bleugrad.lab.errors import FailureError

CHUNK = 1 << 16
MOST_BYTES = 1 << 24
"""Largest size of a line."""


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
