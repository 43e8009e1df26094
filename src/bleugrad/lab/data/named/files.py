"""Files of a prepared corpus: Moses tokenisation, and gzip without time stamp, so that equal text gives equal files."""

import gzip
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bleugrad.lab.extras import require_extra

LANGUAGES = ("de", "en")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines as gzip."""
    with _gzip(path) as file:
        for line in lines:
            file.write(line.encode("utf-8") + b"\n")


def compress_parts(parts: Mapping[str, str], downloads: Path, folder: Path) -> None:
    """Compress the published files of a corpus, plain or gzip; ``parts`` holds their names by split."""
    for split, part in parts.items():
        for language in LANGUAGES:
            source, target = downloads / f"{part}.{language}", folder / f"{split}.{language}.gz"
            plain = source.exists()
            with source.open("rb") if plain else gzip.open(f"{source}.gz", "rb") as text, _gzip(target) as file:
                shutil.copyfileobj(text, file, 1 << 20)


@contextmanager
def _gzip(path: Path) -> Iterator[gzip.GzipFile]:
    """A new gzip file, synced to disk at the end."""
    with path.open("wb") as raw:
        with gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
            yield file
        raw.flush()
        os.fsync(raw.fileno())


def require_tokeniser() -> None:
    """Raise unless the library is installed."""
    require_extra("text", "sacremoses", "tokenising a corpus")


def tokenise(lines: Iterable[str], language: str, *, escape: bool) -> list[str]:
    """Tokenise and lowercase each line; spaces separate the tokens.

    ``escape`` escapes characters that are special in Moses (``&apos;``), as in the paper's data.
    """
    require_tokeniser()
    from sacremoses import MosesTokenizer  # type: ignore[import-untyped]

    tokenizer = MosesTokenizer(lang=language)
    return [str(tokenizer.tokenize(line, return_str=True, escape=escape)).lower() for line in lines]
