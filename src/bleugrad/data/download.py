"""Downloads that may be broken off: a file is whole and verified, or a ``.part`` that the next try goes on with."""

import os
import time
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from socket import gaierror
from typing import cast
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from bleugrad import __version__
from bleugrad.data.checksums import CHUNK, sha256
from bleugrad.errors import FailureError
from bleugrad.runs.files import write_text
from bleugrad.runs.progress import Progress

ATTEMPTS = 3
SECONDS_TO_WAIT = 2.0
TIMEOUT = 30.0


class ConnectionBrokenError(OSError):
    """The transfer stopped before the end; trying again may go on with it."""


def download(url: str, target: Path, checksum: str | None = None) -> str:
    """Fetch a file to ``target`` and return its SHA-256 checksum.

    Bytes go to ``target.part``; a part that is there is gone on with, if the server still has the same file and can
    send a range of it. Only a whole file of the right checksum takes the place of ``target``, by renaming.

    Args:
        url: what to fetch.
        target: where to; its folder exists.
        checksum: what the SHA-256 must be, if that is known.
    """
    part = target.with_name(target.name + ".part")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _fetch(url, part)
            break
        except (OSError, HTTPException) as error:
            if attempt == ATTEMPTS or not _is_passing(error):
                raise FailureError(f"could not download {url}: {_reason(error)}{_kept(part)}") from None
            time.sleep(SECONDS_TO_WAIT * attempt)
    found = sha256(part)
    if checksum is not None and found != checksum:
        _validator(part).unlink(missing_ok=True)
        part.unlink()
        raise FailureError(
            f"{url} came with the SHA-256 checksum {found}; expected {checksum}: it was damaged on the way or has "
            "changed; the download was thrown away"
        )
    os.replace(part, target)
    _validator(part).unlink(missing_ok=True)
    return found


def _fetch(url: str, part: Path) -> None:
    """Bring the part to its end, from where it stands or from the start."""
    answer = _answer(url, part)
    if answer is None:
        return
    with answer:
        start = part.stat().st_size if part.exists() and _continues(answer, part.stat().st_size) else 0
        total = _total(answer, start)
        if start == 0:
            _start_over(answer, part)
        with part.open("ab") as file, Progress(total, part.stem, "byte") as progress:
            progress.done = start
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                if total:
                    progress.advance(len(chunk))
            file.flush()
            os.fsync(file.fileno())
    size = part.stat().st_size
    if total and size != total:
        raise ConnectionBrokenError(f"the connection ended after {size} of {total} bytes")


def _answer(url: str, part: Path) -> HTTPResponse | None:
    """The server's answer to a request for what the part lacks; None if it lacks nothing."""
    done = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": f"bleugrad/{__version__}"}
    if done:
        headers["Range"] = f"bytes={done}-"
        if _validator(part).exists():
            headers["If-Range"] = _validator(part).read_text(encoding="utf-8")
    try:
        return cast(HTTPResponse, urlopen(Request(url, headers=headers), timeout=TIMEOUT))
    except HTTPError as error:
        if error.code != 416 or not done:
            raise
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{done}":
            return None
        part.unlink()  # it is longer than the file: of another one
        return _answer(url, part)


def _continues(response: HTTPResponse, done: int) -> bool:
    content_range = response.headers.get("Content-Range", "")
    return response.status == 206 and content_range.startswith(f"bytes {done}-")


def _total(response: HTTPResponse, start: int) -> int:
    """Bytes of the whole file; 0 where the server does not say."""
    length = response.headers.get("Content-Length")
    return start + int(length) if length is not None and length.isdigit() else 0


def _validator(part: Path) -> Path:
    """Holds what the server calls this version of the file, so that parts of two versions are never joined."""
    return part.with_name(part.name + ".etag")


def _start_over(response: HTTPResponse, part: Path) -> None:
    """An empty part, with the name of the version that is about to fill it."""
    _validator(part).unlink(missing_ok=True)
    part.write_bytes(b"")
    tag = response.headers.get("ETag", "")
    if tag.startswith('"'):  # a weak one does not promise equal bytes
        write_text(_validator(part), tag)


def _is_passing(error: OSError | HTTPException) -> bool:
    """Whether another attempt may help: not where the server said no, there is no network, or no space is left."""
    if isinstance(error, HTTPError):
        return error.code >= 500 or error.code == 429
    if isinstance(error, URLError):
        return not isinstance(error.reason, gaierror)
    return isinstance(error, ConnectionError | ConnectionBrokenError | TimeoutError | HTTPException)


def _reason(error: OSError | HTTPException) -> str:
    if isinstance(error, HTTPError):
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, URLError):
        if isinstance(error.reason, gaierror):
            return "there is no network, or no such server"
        return str(getattr(error.reason, "strerror", None) or error.reason)
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _kept(part: Path) -> str:
    size = part.stat().st_size if part.exists() else 0
    return f"; {size} bytes are kept in {part}, and the same command goes on from there" if size else ""
