"""Fetch a named corpus: download, verify, prepare in a temporary folder, and rename that folder."""

import errno
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from bleugrad.lab.data.checksums import SUMS, checksum, read_sums, write_sums
from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.download import download
from bleugrad.lab.data.locations import SPLITS, VARIABLE, corpus_folder, find_text, is_prepared, roots
from bleugrad.lab.data.named.catalogue import CATALOGUE, NamedCorpus
from bleugrad.lab.data.named.files import LANGUAGES, require_tokeniser
from bleugrad.lab.data.text import read_lines
from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.runs.files import sync_directory, write_text
from bleugrad.lab.runs.lock import LOCK, held

DOWNLOADS = "downloads"


def fetch(config: DataConfig) -> Path:
    """The folder of the named corpus of the settings; it is created if necessary.

    Downloads stay in ``downloads/NAME`` with a list of checksums. A file must have its checksum in the catalogue. If
    the catalogue has no SHA-256 checksum, that of the first download is recorded and required from then on.
    """
    corpus = CATALOGUE[config.corpus]
    name = corpus.name
    if {config.source_language, config.target_language} != set(LANGUAGES):
        pair = f"{config.source_language}-{config.target_language}"
        raise UsageError(f"the languages are {pair}; expected {' and '.join(LANGUAGES)}, which {name} is published in")
    if not corpus.tokenised:
        require_tokeniser()  # before a long download
    root = roots(config.directory)[0]
    folder = root / name
    inputs = None  # the folder of the corpus that this one is derived from
    if corpus.made_from is not None:
        parent = replace(config, corpus=corpus.made_from)
        inputs = corpus_folder(parent) or fetch(parent)
    with _locked(root, name):
        if is_prepared(folder, *LANGUAGES):  # another process has prepared it
            return folder
        _check_free(folder)
        _prepare(corpus, inputs or _downloads(corpus, root), folder)
    return folder


def _downloads(corpus: NamedCorpus, root: Path) -> Path:
    """The folder of the published files, all present and verified."""
    downloads = root / DOWNLOADS / corpus.name
    downloads.mkdir(parents=True, exist_ok=True)
    listed = downloads / SUMS
    sums = read_sums(listed) if listed.exists() else {}
    for url in corpus.urls:
        target = downloads / url.rpartition("/")[2]
        name, known = target.name, corpus.checksums.get(target.name)
        expected = known or sums.get(name)
        try:
            found = checksum(target) if target.exists() else download(url, target, expected, corpus.most_bytes)
        except FailureError as error:
            with suppress(OSError):  # remove the folders of a download that never started
                downloads.rmdir()
                downloads.parent.rmdir()
            raise FailureError(f"{error}. {_by_hand(corpus, downloads)}") from None
        if expected is not None:
            _check(target, "SHA-256", found, expected, "published file" if known else f"first download in {listed}")
        elif name in corpus.md5s:
            _check(target, "MD5", checksum(target, "md5"), corpus.md5s[name], "published file")
        else:
            _say(
                f"no checksum of {name} is known: recorded SHA-256 {found} in {listed} and will require it from now on"
            )
        sums[name] = found
        write_text(listed, "".join(f"{digest}  {one}\n" for one, digest in sorted(sums.items())))
    return downloads


def _check(path: Path, kind: str, found: str, expected: str, origin: str) -> None:
    if found != expected:
        raise FailureError(
            f"{path} has the {kind} checksum {found}; expected {expected}, the checksum of the {origin}: remove the "
            "file to download it again"
        )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _prepare(corpus: NamedCorpus, inputs: Path, folder: Path) -> None:
    """Run the recipe in a temporary folder, and rename that folder when it is complete."""
    work = folder.with_name(f".{folder.name}.preparing")
    shutil.rmtree(work, ignore_errors=True)  # left by a killed process
    work.mkdir(parents=True)
    try:
        _say(f"preparing {corpus.name} in {folder}")
        corpus.recipe(inputs, work)
        _check_counts(corpus, work)
        _compare_texts(corpus, work)
        write_sums(work, [path.name for path in work.iterdir()])
        if folder.exists():
            folder.rmdir()  # it is empty
        sync_directory(work)
        work.rename(folder)
        sync_directory(folder.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check_counts(corpus: NamedCorpus, folder: Path) -> None:
    for split in SPLITS:
        found = {}
        for language in LANGUAGES:
            path = find_text(folder, f"{split}.{language}")
            if path is None:
                raise FailureError(f"preparing {corpus.name} made no {split}.{language}; this is a bug in its recipe")
            found[language] = len(read_lines(path))
        expected = corpus.counts.get(split, found[LANGUAGES[0]])
        if set(found.values()) != {expected} or expected == 0:
            counts = " and ".join(f"{count} ({language})" for language, count in found.items())
            raise FailureError(
                f"{split} of {corpus.name} has {counts} lines; expected {expected or 'some'}: the published files "
                "have changed"
            )


def _compare_texts(corpus: NamedCorpus, folder: Path) -> None:
    """Say which prepared files are not the text that the paper used."""
    other = []
    for name, expected in corpus.texts.items():
        path = find_text(folder, name)
        text = "".join(f"{line}\n" for line in read_lines(path)) if path is not None else ""
        if hashlib.sha256(text.encode("utf-8")).hexdigest() != expected:
            other.append(name)
    if other:
        _say(
            f"{corpus.name}: not the text that the paper used (other SHA-256 checksum): {', '.join(other)}; scores can "
            "differ slightly from published ones"
        )


def _check_free(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise FailureError(f"{folder} is a file; expected a folder or a free path")
    if folder.is_dir() and any(folder.iterdir()):
        missing = [f"{split}.{language}.gz" for split in SPLITS for language in LANGUAGES]
        missing = [name for name in missing if not find_text(folder, name.removesuffix(".gz"))]
        raise FailureError(f"{folder} has no {', '.join(missing)}; expected a complete corpus or an empty folder")


def _by_hand(corpus: NamedCorpus, downloads: Path) -> str:
    """Instructions for a machine without a network."""
    files = ", ".join(url.rpartition("/")[2] for url in corpus.urls)
    sites = " and ".join(dict.fromkeys(url.rpartition("/")[0] + "/" for url in corpus.urls))
    return (
        f"Without a network: fetch {files} elsewhere (from {sites}), put them into {downloads} and run "
        f"`bleugrad data --corpus {corpus.name}` again; or set {VARIABLE} to a folder whose "
        f"{corpus.name}/ holds {{train,valid,test}}.{{de,en}}.gz; or use the corpus that needs no files, "
        "`bleugrad data --corpus builtin` or `bleugrad train --data-corpus builtin`"
    )


@contextmanager
def _locked(root: Path, name: str) -> Iterator[None]:
    """One process at a time: other processes wait and then find the corpus."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not os.access(root, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise FailureError(
            f"{name} is not in {root} and cannot be written there: {error.strerror}; set {VARIABLE} to a folder "
            "with write permission"
        ) from None
    with held(root / LOCK, -1):
        yield
