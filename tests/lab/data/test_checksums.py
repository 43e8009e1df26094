"""Lists of checksums: those of the standard tool, in the folder of a corpus or above it."""

import hashlib
import shutil
import subprocess

import pytest

from bleugrad.lab.data.checksums import checksum, read_sums, verify_sums, write_sums
from bleugrad.lab.errors import FailureError


@pytest.fixture
def folder(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "train.de").write_text("eins\n")
    (corpus / "train.en").write_text("one\n")
    return corpus


def test_a_list_is_that_of_the_standard_tool(folder):
    write_sums(folder, ["train.en", "train.de"])
    assert read_sums(folder / "SHA256SUMS")["train.de"] == hashlib.sha256(b"eins\n").hexdigest()
    assert checksum(folder / "train.en") == hashlib.sha256(b"one\n").hexdigest()
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True, capture_output=True)


def test_a_changed_file_is_named_whichever_list_knows_it(folder):
    write_sums(folder, ["train.de", "train.en"])
    assert verify_sums(folder) == 2
    text = (folder / "SHA256SUMS").read_text()
    (folder / "SHA256SUMS").unlink()
    assert verify_sums(folder) == 0
    lines = [f"{line.split()[0]}  ./corpus/{line.split()[1]}" for line in text.splitlines()]
    other = f"{'0' * 64}  ./other/train.de"
    (folder.parent / "SHA256SUMS").write_text("\n".join([*lines, other, f"{'0' * 64} *corpus/absent", ""]))
    assert verify_sums(folder) == 2
    (folder / "train.en").write_text("two\n")
    with pytest.raises(FailureError, match=r"corpus/train\.en has the SHA-256 checksum .*; expected"):
        verify_sums(folder)


def test_a_list_that_is_none_is_said_to_be_none(folder):
    (folder / "SHA256SUMS").write_text("what\n")
    with pytest.raises(FailureError, match="line 1 is 'what'; expected a SHA-256 checksum"):
        verify_sums(folder)
