"""Checksums of files, and lists of SHA-256 checksums in the format of ``sha256sum``."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from bleugrad.lab.errors import FailureError
from bleugrad.lab.runs.files import write_text

SUMS = "SHA256SUMS"
CHUNK = 1 << 20


def checksum(path: Path, kind: str = "sha256") -> str:
    """The checksum of a file by an algorithm of hashlib, in hexadecimal. MD5 detects damaged files, not forged ones."""
    digest = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def read_sums(path: Path) -> dict[str, str]:
    """The checksums of a list, by file name relative to the list."""
    sums = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        digest, _, name = line.partition(" ")
        name = name.strip().removeprefix("*").removeprefix("./")
        if len(digest) != 64 or not name:
            raise FailureError(f"{path}, line {number} is {line!r}; expected a SHA-256 checksum and a file name")
        sums[name] = digest.lower()
    return sums


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write the checksums of files of a folder, for ``sha256sum -c``."""
    write_text(folder / SUMS, "".join(f"{checksum(folder / name)}  {name}\n" for name in sorted(names)))


def verify_sums(folder: Path, splits: Iterable[str] | None = None) -> int:
    """Check the files of a corpus against the list in its folder or its parent. Returns the number of checked files.

    With ``splits``, only files whose names begin with one of these words and a dot are checked.
    Listed files that do not exist are ignored; code that needs them reports them.
    """
    folder = folder.resolve()
    begins = ("",) if splits is None else tuple(f"{split}." for split in splits)
    checked = 0
    for listed, prefix in ((folder / SUMS, ""), (folder.parent / SUMS, f"{folder.name}/")):
        if not listed.is_file():
            continue
        for name, expected in read_sums(listed).items():
            path = folder / name.removeprefix(prefix)
            elsewhere = not name.startswith(prefix) or "/" in name.removeprefix(prefix)
            if elsewhere or not path.name.startswith(begins) or not path.is_file():
                continue
            found = checksum(path)
            if found != expected:
                raise FailureError(
                    f"{path} has the SHA-256 checksum {found}; expected {expected}, as listed in {listed}: the file is "
                    "damaged or was changed; remove it and download it again"
                )
            checked += 1
    return checked
