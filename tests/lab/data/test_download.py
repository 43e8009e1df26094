"""Downloads are complete and verified, or leave nothing; a local server simulates all known failures."""

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
    with serve(Site({"/corpus.tgz": CONTENT})) as running:
        yield running


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_whole_with_its_checksum(site, tmp_path):
    assert download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz", DIGEST) == DIGEST
    assert (tmp_path / "corpus.tgz").read_bytes() == CONTENT
    assert names(tmp_path) == ["corpus.tgz"]


@pytest.mark.parametrize("lengths", [True, False], ids=["length said", "length not said"])
def test_a_file_that_is_too_large_is_refused(site, tmp_path, lengths):
    site.lengths = lengths
    url, most = f"{site.address}/corpus.tgz", len(CONTENT)
    with pytest.raises(FailureError, match=f"bytes; expected at most {most - 1}: .* deleted"):
        download(url, tmp_path / "corpus.tgz", most_bytes=most - 1)
    assert names(tmp_path) == []
    assert len(site.requests) == 1
    assert download(url, tmp_path / "corpus.tgz", most_bytes=most) == DIGEST


def test_the_name_is_on_the_disk_when_a_download_returns(site, tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda h: events.append(os.readlink(f"/proc/self/fd/{h}")) or fsync(h))
    monkeypatch.setattr(os, "replace", lambda a, b: events.append(f"{b} named") or replace(a, b))
    target = tmp_path / "corpus.tgz"
    download(f"{site.address}/corpus.tgz", target)
    assert events[-3:] == [f"{target}.part", f"{target} named", str(tmp_path)]


def test_a_connection_that_breaks_is_tried_again_from_the_beginning(site, tmp_path):
    site.cut_after, site.cuts_left = 5000, 2
    assert download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz") == DIGEST
    assert len(site.requests) == 3
    assert names(tmp_path) == ["corpus.tgz"]


def test_a_connection_that_keeps_breaking_leaves_nothing(site, tmp_path):
    site.cut_after = 5000
    with pytest.raises(FailureError, match=rf"the connection ended after 5000 of {len(CONTENT)} bytes$"):
        download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz")
    assert len(site.requests) == 3
    assert names(tmp_path) == []


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
    assert names(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_ends_in_the_middle_does_not_disturb_the_next_download(site, tmp_path, number):
    site.stall_after = 300_000
    script = f"""
import signal
from pathlib import Path
from bleugrad.lab.data import download
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
download.CHUNK = 1000
download.download("{site.address}/corpus.tgz", Path({str(tmp_path)!r}) / "corpus.tgz")
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL)
    part = tmp_path / "corpus.tgz.part"
    deadline = time.monotonic() + 60
    while (not part.exists() or part.stat().st_size < 100_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    process.wait()
    assert names(tmp_path) == ([part.name] if number == signal.SIGKILL else [])
    site.stall_after = None
    assert download(f"{site.address}/corpus.tgz", tmp_path / "corpus.tgz") == DIGEST
    assert names(tmp_path) == ["corpus.tgz"]
