"""Downloads are complete and verified, or leave a part to resume; a local server simulates all known failures."""

import hashlib
import os
import signal
import subprocess
import sys
import time

import pytest

from bleugrad.lab.data import download as module
from bleugrad.lab.data.download import download
from bleugrad.lab.errors import FailureError
from tests.lab.data.server import Site, serve

CONTENT = bytes(range(256)) * 4000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "SECONDS_TO_WAIT", 0)


@pytest.fixture
def site():
    with serve(Site({"/corpus.tgz": CONTENT}, tags={"/corpus.tgz": TAG})) as running:
        yield running


TAG = '"first"'


def keep_part(folder, content, tag=TAG):
    """What a broken download leaves behind."""
    (folder / "corpus.tgz.part").write_bytes(content)
    if tag is not None:
        (folder / "corpus.tgz.part.etag").write_text(tag)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_whole_with_its_checksum(site, tmp_path):
    assert download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz", DIGEST) == DIGEST
    assert (tmp_path / "corpus.tgz").read_bytes() == CONTENT
    assert names(tmp_path) == ["corpus.tgz"]


def test_a_part_is_gone_on_with(site, tmp_path):
    keep_part(tmp_path, CONTENT[:1000])
    download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz", DIGEST)
    assert site.requests == [("/corpus.tgz", "bytes=1000-")]
    assert (tmp_path / "corpus.tgz").read_bytes() == CONTENT
    assert names(tmp_path) == ["corpus.tgz"]


@pytest.mark.parametrize("heeds_if_range", [True, False])
@pytest.mark.parametrize("now", ['"second"', None])
@pytest.mark.parametrize("then", [TAG, None, 'W/"first"', "", '"first"\nX: y', '"fïrst"'])
@pytest.mark.parametrize("length", [1000, len(CONTENT), len(CONTENT) + 1])
def test_a_part_of_another_or_an_unknown_version_is_not_joined_to_this_one(
    site, tmp_path, then, now, heeds_if_range, length
):
    """Also if the server sends a range of another version."""
    site.tags = {"/corpus.tgz": now} if now else {}
    site.heeds_if_range = heeds_if_range
    keep_part(tmp_path, b"x" * length, then)
    assert download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz") == DIGEST
    assert names(tmp_path) == ["corpus.tgz"]


@pytest.mark.parametrize("part", [CONTENT, CONTENT + b"more"], ids=["whole", "too long"])
def test_a_part_that_is_not_shorter_than_the_file(site, tmp_path, part):
    keep_part(tmp_path, part)
    assert download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz") == DIGEST
    assert len(site.requests) == (1 if part == CONTENT else 2)


@pytest.mark.parametrize("lengths", [True, False], ids=["length said", "length not said"])
def test_a_file_that_is_too_large_is_refused(site, tmp_path, lengths):
    site.lengths = lengths
    url, most = f"{site.address}/corpus.tgz", len(CONTENT)
    with pytest.raises(FailureError, match=f"bytes; expected at most {most - 1}: .* deleted"):
        download(url, tmp_path / "corpus.tgz", most_bytes=most - 1)
    assert names(tmp_path) == []
    assert len(site.requests) == 1
    assert download(url, tmp_path / "corpus.tgz", most_bytes=most) == DIGEST


def test_a_part_that_grows_too_large_is_refused(site, tmp_path):
    keep_part(tmp_path, CONTENT[:1000])
    with pytest.raises(FailureError, match="expected at most 5000"):
        download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz", most_bytes=5000)
    assert names(tmp_path) == []


def test_the_name_is_on_the_disk_when_a_download_returns(site, tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda h: events.append(os.readlink(f"/proc/self/fd/{h}")) or fsync(h))
    monkeypatch.setattr(os, "replace", lambda a, b: events.append(f"{b} named") or replace(a, b))
    target = tmp_path / "corpus.tgz"
    download(f"{site.address}/corpus.tgz", target)
    assert events[-3:] == [f"{target}.part", f"{target} named", str(tmp_path)]


def test_a_server_without_ranges_sends_all_of_it_again(site, tmp_path):
    site.ranges = False
    keep_part(tmp_path, b"x" * 1000)
    assert download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz") == DIGEST


def test_a_connection_that_breaks_is_taken_up_again(site, tmp_path):
    site.cut_after, site.cuts_left = 5000, 2
    assert download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz") == DIGEST
    assert [asked for _, asked in site.requests] == [None, "bytes=5000-", "bytes=10000-"]


def test_a_connection_that_keeps_breaking_leaves_the_part(site, tmp_path):
    site.cut_after = 5000
    with pytest.raises(FailureError, match=rf"ended after 15000 of {len(CONTENT)} bytes; 15000 bytes are kept in"):
        download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz")
    assert (tmp_path / "corpus.tgz.part").read_bytes() == CONTENT[:15000]
    assert not (tmp_path / "corpus.tgz").exists()


def test_without_the_name_of_a_version_every_attempt_starts_over(site, tmp_path):
    site.tags = {}
    site.cut_after, site.cuts_left = 5000, 2
    assert download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz") == DIGEST
    assert [asked for _, asked in site.requests] == [None] * 3


def test_a_server_in_trouble_is_asked_again_and_one_that_refuses_is_not(site, tmp_path):
    site.fail_with = [503]
    assert download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz") == DIGEST
    site.requests.clear()
    with pytest.raises(FailureError, match=r"absent\.tgz: the server answered 404 Not Found$"):
        download(f"{site.address}/absent.tgz", tmp_path / "absent.tgz")
    assert len(site.requests) == 1
    assert names(tmp_path) == ["corpus.tgz"]


def test_a_wrong_checksum_throws_the_download_away_and_keeps_what_was_there(site, tmp_path):
    (tmp_path / "corpus.tgz").write_bytes(b"good")
    with pytest.raises(FailureError, match=f"checksum {DIGEST}; expected {'0' * 64}"):
        download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz", "0" * 64)
    assert (tmp_path / "corpus.tgz").read_bytes() == b"good"
    assert names(tmp_path) == ["corpus.tgz"]


def test_no_network_is_said_at_once(tmp_path):
    with pytest.raises(FailureError, match="there is no network, or no such server"):
        download("http://no-such-host.invalid/corpus.tgz", tmp_path / "corpus.tgz")
    assert names(tmp_path) == []


def test_a_refused_connection_is_said(tmp_path, monkeypatch):
    with serve(Site()) as site:
        address = site.address
    with pytest.raises(FailureError, match="Connection refused"):
        download(f"{address}/corpus.tgz", tmp_path / "corpus.tgz")


def test_a_full_disk_is_said_and_not_tried_again(site, tmp_path, monkeypatch):
    def fail(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", fail)
    with pytest.raises(FailureError, match="No space left on device"):
        download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz")
    assert len(site.requests) == 1
    assert not (tmp_path / "corpus.tgz").exists()


def test_a_process_killed_in_the_middle_leaves_a_part_that_is_gone_on_with(site, tmp_path):
    site.stall_after = 300_000
    script = f"""
from pathlib import Path
from bleugrad.lab.data import download
download.CHUNK = 1000
download.download("{site.address}/corpus.tgz", Path({str(tmp_path)!r}) / "corpus.tgz")
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen([sys.executable, "-c", script], env=environment)
    assert site.stalled.wait(60)
    part = tmp_path / "corpus.tgz.part"
    deadline = time.monotonic() + 60
    while (not part.exists() or part.stat().st_size < 100_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert names(tmp_path) == ["corpus.tgz.part", "corpus.tgz.part.etag"]
    kept = part.read_bytes()
    assert 100_000 <= len(kept) <= 300_000
    assert CONTENT.startswith(kept)
    site.stall_after = None
    assert download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz") == DIGEST
    assert site.requests[-1] == ("/corpus.tgz", f"bytes={len(kept)}-")
