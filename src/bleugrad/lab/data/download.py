"""Downloads that can be interrupted: a file is complete and verified, or a ``.part`` that the next attempt resumes."""

import os
import re
import time
from email.message import Message
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from socket import gaierror
from typing import cast
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from bleugrad import __version__
from bleugrad.lab.data.checksums import CHUNK, sha256
from bleugrad.lab.errors import FailureError
from bleugrad.lab.runs.files import sync_directory, write_text
from bleugrad.lab.runs.progress import Progress

ATTEMPTS = 3
SECONDS_TO_WAIT = 2.0
TIMEOUT = 30.0
MOST_BYTES = 2**31
"""Default limit of the file size."""

STRONG_TAG = re.compile('"[!#-~]*"')
"""A strong ETag promises equal bytes; a weak one, W/"...", does not."""


class ConnectionBrokenError(OSError):
    """The transfer stopped early; another attempt may resume it."""


def download(url: str, target: Path, checksum: str | None = None, most_bytes: int = MOST_BYTES) -> str:
    """Fetch a file to ``target``, whose folder must exist, and return its SHA-256 checksum.

    Bytes go to ``target.part``. An existing part is resumed if the server gave it a strong ETag, still has that
    version, and supports ranges. A complete file with the right ``checksum``, if known, is renamed to ``target``.
    """
    part = target.with_name(target.name + ".part")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _fetch(url, part, most_bytes)
            break
        except FailureError:
            _discard(part)
            raise
        except (OSError, HTTPException) as error:
            if attempt == ATTEMPTS or not _is_passing(error):
                raise FailureError(f"could not download {url}: {_reason(error)}{_kept(part)}") from None
            time.sleep(SECONDS_TO_WAIT * attempt)
    found = sha256(part)
    if checksum is not None and found != checksum:
        _discard(part)
        raise FailureError(
            f"{url} has the SHA-256 checksum {found}; expected {checksum}: the file was damaged or has changed; the "
            "download was deleted"
        )
    os.replace(part, target)
    _validator(part).unlink(missing_ok=True)
    sync_directory(target.parent)
    return found


def _fetch(url: str, part: Path, most_bytes: int) -> None:
    """Complete the part: resume it or start over."""
    answer = _answer(url, part)
    if answer is None:
        return
    response, size = answer
    with response:
        length = response.headers.get("Content-Length", "")
        total = size + int(length) if length.isdigit() else 0  # 0 if the server does not say
        if size == 0:
            _start_over(response, part)
        with part.open("ab") as file, Progress(total, part.stem, "byte") as progress:
            progress.done = size
            while total <= most_bytes and (chunk := response.read(CHUNK)):
                size += len(chunk)
                if size > most_bytes:
                    break
                file.write(chunk)
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


def _answer(url: str, part: Path) -> tuple[HTTPResponse, int] | None:
    """The server's response with the missing bytes, and their offset; None if the part is complete."""
    headers = {"User-Agent": f"bleugrad/{__version__}"}
    tag = _tag(part)
    done = part.stat().st_size if tag else 0
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": tag}
    try:
        response = cast(HTTPResponse, urlopen(Request(url, headers=headers), timeout=TIMEOUT))
        if response.status != 206 or not done:
            return response, 0
        if _continues(response.headers, f"bytes {done}-", tag):
            return response, done
        response.close()
    except HTTPError as error:
        if error.code != 416 or not done:
            raise
        error.close()
        if _continues(error.headers, f"bytes */{done}", tag):
            return None
    _discard(part)  # the server has another version
    return _answer(url, part)


def _continues(headers: Message, content_range: str, tag: str) -> bool:
    return headers.get("ETag") == tag and headers.get("Content-Range", "").startswith(content_range)


def _validator(part: Path) -> Path:
    """The file with the ETag of the part, so that parts of two versions are never joined."""
    return part.with_name(part.name + ".etag")


def _tag(part: Path) -> str:
    """The ETag of a part; empty if there is no part or no tag."""
    try:
        tag = _validator(part).read_text(encoding="ascii") if part.exists() else ""
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
    return tag if STRONG_TAG.fullmatch(tag) else ""


def _start_over(response: HTTPResponse, part: Path) -> None:
    """Create an empty part and save the ETag of the response."""
    _discard(part)
    part.touch()
    tag = response.headers.get("ETag", "")
    if STRONG_TAG.fullmatch(tag):
        write_text(_validator(part), tag)


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _validator(part).unlink(missing_ok=True)


def _is_passing(error: OSError | HTTPException) -> bool:
    """Whether another attempt may help: not if the server refused, there is no network, or the disk is full."""
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
    size = part.stat().st_size if _tag(part) else 0
    return f"; {size} bytes are kept in {part}; rerun the command to resume" if size else ""
