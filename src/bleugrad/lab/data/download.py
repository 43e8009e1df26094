"""Downloads: a file is complete and verified, or absent."""

import os
import time
from http.client import HTTPException
from pathlib import Path
from socket import gaierror
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from bleugrad import __version__
from bleugrad.lab.data.checksums import CHUNK, checksum
from bleugrad.lab.errors import FailureError
from bleugrad.lab.runs.files import sync_directory
from bleugrad.lab.runs.progress import Progress

ATTEMPTS = 3
SECONDS_TO_WAIT = 2.0
TIMEOUT = 30.0
MOST_BYTES = 2**31
"""Default limit of the file size."""


class ConnectionBrokenError(ConnectionError):
    """The transfer stopped early."""


def download(url: str, target: Path, expected: str | None = None, most_bytes: int = MOST_BYTES) -> str:
    """Fetch a file to ``target``, whose folder must exist, and return its SHA-256 checksum.

    Bytes go to ``target.part``, which is renamed when it is complete and has the ``expected`` checksum. An error
    or an interrupt removes the part, and the next download replaces the part of a killed process.
    """
    part = target.with_name(target.name + ".part")
    try:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                _fetch(url, part, most_bytes)
                break
            except (OSError, HTTPException) as error:
                if attempt == ATTEMPTS or not _is_passing(error):
                    raise FailureError(f"could not download {url}: {_reason(error)}") from None
                time.sleep(SECONDS_TO_WAIT * attempt)
        found = checksum(part)
        if expected is not None and found != expected:
            raise FailureError(
                f"{url} has the SHA-256 checksum {found}; expected {expected}: the file was damaged or has changed; "
                "the download was deleted"
            )
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    sync_directory(target.parent)
    return found


def _fetch(url: str, part: Path, most_bytes: int) -> None:
    request = Request(url, headers={"User-Agent": f"bleugrad/{__version__}"})
    with urlopen(request, timeout=TIMEOUT) as response, part.open("wb") as file:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else 0  # 0 if the server does not say
        size = 0
        with Progress(total, part.stem, "byte") as progress:
            while max(size, total) <= most_bytes and (chunk := response.read(CHUNK)):
                size += file.write(chunk)
                if total:
                    progress.advance(len(chunk))
        file.flush()
        os.fsync(file.fileno())
    if max(size, total) > most_bytes:
        raise FailureError(
            f"{url} has {total or f'more than {most_bytes}'} bytes; expected at most {most_bytes}: this is not the "
            "expected file; the download was deleted"
        )
    if total and size != total:
        raise ConnectionBrokenError(f"the connection ended after {size} of {total} bytes")


def _is_passing(error: OSError | HTTPException) -> bool:
    """Whether another attempt may help: not if the server refused, there is no network, or the disk is full."""
    if isinstance(error, HTTPError):
        return error.code >= 500 or error.code == 429
    if isinstance(error, URLError):
        return not isinstance(error.reason, gaierror)
    return isinstance(error, ConnectionError | TimeoutError | HTTPException)


def _reason(error: OSError | HTTPException) -> str:
    if isinstance(error, HTTPError):
        return f"the server answered {error.code} {error.reason}"
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, gaierror):
        return "there is no network, or no such server"
    return str(getattr(cause, "strerror", None) or str(cause) or type(cause).__name__)
