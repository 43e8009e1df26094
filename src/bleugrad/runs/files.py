"""Files that are whole or absent: a reader never meets one half written."""

import contextlib
import os
import tempfile
from pathlib import Path


def write_bytes(path: Path, content: bytes) -> None:
    """Write beside the target, then rename over it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def write_text(path: Path, content: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    write_bytes(path, content.encode("utf-8"))


def sync_directory(path: Path) -> None:
    """Have the names in a directory on the disk, where the system and the file system can."""
    with contextlib.suppress(OSError):  # the file is in place already
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    """The mask of new files: it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
