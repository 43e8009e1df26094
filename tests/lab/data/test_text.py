"""Text files: how they are read, and the error messages for invalid files."""

import gzip

import pytest

from bleugrad.lab.data import text
from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.text import check_scored, read_lines, read_split
from bleugrad.lab.errors import FailureError, UsageError


def write(path, content):
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["text", "text.gz"])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a b\n\nc\n", ["a b", "", "c"]),
        ("a\nb", ["a", "b"]),
        ("\ufeffa\r\nb\r\n", ["a", "b"]),
        ("größe\u2028x\x85y\x0cz\n", ["größe\u2028x\x85y\x0cz"]),
    ],
)
def test_lines_end_at_newlines_only(tmp_path, name, content, lines):
    assert read_lines(write(tmp_path / name, content)) == lines


def test_gzip_is_known_by_its_content(tmp_path):
    (tmp_path / "text").write_bytes(gzip.compress(b"a\n"))
    assert read_lines(tmp_path / "text") == ["a"]


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_what_is_not_utf8_is_named_with_its_line(tmp_path, name):
    path = write(tmp_path / name, b"fine\nalso fine\nfa\xe7ade\nbad too \xff\n")
    with pytest.raises(FailureError, match=rf"{name}, line 3: byte 3 is 0xe7, which is not UTF-8"):
        read_lines(path)


def test_a_missing_file_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*absent\.gz: No such file"):
        read_lines(tmp_path / "absent.gz")
    with pytest.raises(UsageError, match="Is a directory"):
        read_lines(tmp_path)


def test_gzip_that_is_cut_off_damaged_or_none(tmp_path):
    path = tmp_path / "text.gz"
    whole = gzip.compress(b"a sentence\n" * 1000)
    for length in (2, 9, 20, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FailureError, match="is truncated"):
            read_lines(path)
    path.write_bytes(whole[:-8] + b"\0" * 8)
    with pytest.raises(FailureError, match="damaged gzip"):
        read_lines(path)
    for plain in (b"a sentence\n", b""):
        path.write_bytes(plain)
        with pytest.raises(FailureError, match="is not a gzip file"):
            read_lines(path)


def test_a_small_gzip_file_does_not_expand_without_end(tmp_path, monkeypatch):
    """A megabyte of gzip can hold a gigabyte of zeros; reading stops when there is more than text ever is."""
    monkeypatch.setattr(text, "ALWAYS_EXPANDED", 2**21)
    path = write(tmp_path / "text.gz", b"\0" * 2**23)
    assert path.stat().st_size < 10_000
    reads = []
    read = gzip.GzipFile.readline
    monkeypatch.setattr(gzip.GzipFile, "readline", lambda *given: reads.append(len(found := read(*given))) or found)
    with pytest.raises(FailureError, match=r"text\.gz, expanded, holds more than 2097152 bytes of text; expected"):
        read_lines(path)
    assert 0 < sum(reads) <= 2**21 + 2**20, "it stopped early"
    monkeypatch.setattr(text, "ALWAYS_EXPANDED", 2**23)
    assert read_lines(path) == ["\0" * 2**23]


def test_a_gzip_file_may_expand_as_text_does_and_no_file_beyond_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "ALWAYS_EXPANDED", 0)
    lines = [f"line {number}" for number in range(10_000)]
    zipped = write(tmp_path / "text.gz", "\n".join(lines))
    assert read_lines(zipped) == lines
    monkeypatch.setattr(text, "MOST_BYTES", 1000)
    for path in (zipped, write(tmp_path / "text", "\n".join(lines))):
        with pytest.raises(FailureError, match="holds more than 1000 bytes"):
            read_lines(path)


def test_pairs_with_one_and_with_several_references(tmp_path):
    source = write(tmp_path / "test.de", "eins\nzwei\ndrei\n")
    target = write(tmp_path / "test.en", "one\ttwo\nthree\t\n\t\n")
    assert read_split(source, target) == Split(["eins", "zwei", "drei"], [("one", "two"), ("three",), ("",)])


def test_the_target_stays_the_first_of_the_references(tmp_path):
    source = write(tmp_path / "test.de", "eins\nzwei\n")
    target = write(tmp_path / "test.en", "one\ntwo\n")
    references = write(tmp_path / "test.refs.en.gz", "1\tone\tan one\ntwo\n")
    split = read_split(source, target, references)
    assert split.references == [("one", "1", "an one"), ("two",)]
    assert (split.targets, split.most_references) == (["one", "two"], 3)


def test_files_of_different_line_counts_are_named_with_their_counts(tmp_path):
    source, target = write(tmp_path / "a.de", "1\n2\n3\n"), write(tmp_path / "a.en", "1\n2\n")
    with pytest.raises(FailureError, match=r"a\.de has 3 lines and .*a\.en has 2; expected one pair per line"):
        read_split(source, target)
    with pytest.raises(FailureError, match=r"a\.de has 3 lines and .*a\.en has 2; expected one pair per line"):
        read_split(source, source, target)


def test_an_empty_target_cannot_be_scored_and_an_empty_source_can():
    check_scored(Split(["", "b"], [("x",), ("y",)]), "valid.de", "valid.en")
    with pytest.raises(FailureError, match=r"valid\.en, line 2: the line is empty"):
        check_scored(Split(["a", "b"], [("x",), (" ",)]), "valid.de", "valid.en")


def test_a_split_has_as_many_references_as_sources():
    with pytest.raises(ValueError, match="sources has 1 sentences, references has 0"):
        Split(["a"], [])
