"""Named corpora: fetched from a local server, verified, prepared, and moved into place only when complete."""

import bz2
import dataclasses
import gzip
import hashlib
import io
import re
import statistics
import tarfile
import threading
from collections import Counter
from urllib.parse import urlsplit

import pytest

from bleugrad.lab.data import download
from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.encoding import build_vocabularies
from bleugrad.lab.data.named import fetching, iwslt14, tatoeba
from bleugrad.lab.data.named.catalogue import CATALOGUE
from bleugrad.lab.data.named.fetching import fetch
from bleugrad.lab.data.preparation import prepare
from bleugrad.lab.data.text import read_lines
from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.settings.loading import build
from bleugrad.lab.training.presets import preset
from tests.lab.data.server import Site, serve


@pytest.fixture
def site(monkeypatch):
    """The published files come from here; nothing else about the corpora changes but their sizes."""
    monkeypatch.setattr(download, "SECONDS_TO_WAIT", 0)
    with serve(Site()) as running:
        for name, corpus in CATALOGUE.items():
            urls = tuple(running.address + urlsplit(url).path for url in corpus.urls)
            local = dataclasses.replace(corpus, urls=urls, counts={}, checksums={}, md5s={}, texts={})
            monkeypatch.setitem(CATALOGUE, name, local)
        yield running


def publish(site, corpus, contents):
    """Contents by file name."""
    for url in CATALOGUE[corpus].urls:
        path = urlsplit(url).path
        site.files[path] = contents[path.rpartition("/")[2]]


def publish_multi30k(site):
    parts = {"train": 3, "val": 2, "test_2016_flickr": 1}
    publish(
        site,
        "multi30k",
        {
            f"{part}.lc.norm.tok.{language}": f"ein satz {language}\n".encode() * count
            for part, count in parts.items()
            for language in ("de", "en")
        },
    )


def config(tmp_path, corpus, **more):
    return build(DataConfig, {"corpus": corpus, "directory": str(tmp_path / "data"), **more})


def test_the_catalogue_is_what_the_settings_offer():
    for name, corpus in CATALOGUE.items():
        assert DataConfig(corpus=name).corpus == corpus.name
        assert callable(corpus.recipe)
        assert bool(corpus.urls) != bool(corpus.made_from)
        assert all(re.match(r"https://[^ ]+/[^/ ]+$", url) for url in corpus.urls)


def test_multi30k_from_the_net_to_a_corpus(site, tmp_path):
    publish_multi30k(site)
    corpus = prepare(config(tmp_path, "multi30k"))
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (3, 2, 1)
    assert (corpus.test.sources, corpus.test.targets) == (["ein satz de"], ["ein satz en"])
    folder = tmp_path / "data"
    assert sorted(path.name for path in folder.iterdir()) == ["downloads", "multi30k"]
    assert len((folder / "multi30k" / "SHA256SUMS").read_text().splitlines()) == 6
    assert len((folder / "downloads" / "multi30k" / "SHA256SUMS").read_text().splitlines()) == 6
    asked = len(site.requests)
    assert prepare(config(tmp_path, "multi30k")) == corpus
    assert len(site.requests) == asked, "what is there is not fetched again"


def test_the_same_text_makes_the_same_files(site, tmp_path):
    publish_multi30k(site)
    sums = [(fetch(config(tmp_path / place, "multi30k")) / "SHA256SUMS").read_text() for place in ("here", "there")]
    assert sums[0] == sums[1]


def test_processes_that_want_the_same_corpus_fetch_it_once(site, tmp_path):
    publish_multi30k(site)
    folders = []
    threads = [threading.Thread(target=lambda: folders.append(fetch(config(tmp_path, "multi30k")))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders == [tmp_path / "data" / "multi30k"] * 4
    assert len(site.requests) == 6


def test_a_published_file_that_changed_is_noticed(site, tmp_path):
    publish_multi30k(site)
    folder = fetch(config(tmp_path, "multi30k"))
    for path in folder.iterdir():
        path.unlink()
    downloads = tmp_path / "data" / "downloads" / "multi30k"
    (downloads / "train.lc.norm.tok.de").unlink()
    path = urlsplit(CATALOGUE["multi30k"].urls[0]).path
    site.files[path] = b"anders\n" * 3
    with pytest.raises(FailureError, match=r"train\.lc\.norm\.tok\.de has the SHA-256 checksum"):
        fetch(config(tmp_path, "multi30k"))
    (downloads / "train.lc.norm.tok.de").write_bytes(b"von hand\n")
    with pytest.raises(FailureError, match=r"has the SHA-256 checksum .* the checksum of the first download"):
        fetch(config(tmp_path, "multi30k"))


def test_a_checksum_nobody_knew_is_said_when_it_is_recorded(site, tmp_path, capsys):
    publish_multi30k(site)
    fetch(config(tmp_path, "multi30k"))
    listed = tmp_path / "data" / "downloads" / "multi30k" / "SHA256SUMS"
    digest = hashlib.sha256(b"ein satz de\n" * 3).hexdigest()
    said = capsys.readouterr().err
    assert f"no checksum of train.lc.norm.tok.de is known: recorded SHA-256 {digest} in {listed}" in said
    assert said.count("no checksum of") == 6


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_file_that_has_not_the_pinned_checksum_is_refused_the_first_time(
    site, tmp_path, monkeypatch, capsys, by_hand
):
    publish_multi30k(site)
    name = "train.lc.norm.tok.de"
    pinned = dataclasses.replace(CATALOGUE["multi30k"], checksums={name: "0" * 64})
    monkeypatch.setitem(CATALOGUE, "multi30k", pinned)
    if by_hand:
        downloads = tmp_path / "data" / "downloads" / "multi30k"
        downloads.mkdir(parents=True)
        (downloads / name).write_bytes(b"von hand\n")
    with pytest.raises(FailureError, match=rf"{re.escape(name)} (came|has).*; expected {'0' * 64}"):
        fetch(config(tmp_path, "multi30k"))
    assert "is known" not in capsys.readouterr().err


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_pinned_md5_checksum_is_required_and_then_the_sha256_of_that_file(
    site, tmp_path, monkeypatch, capsys, by_hand
):
    publish_multi30k(site)
    name, content = "train.lc.norm.tok.de", b"ein satz de\n" * 3
    downloads = tmp_path / "data" / "downloads" / "multi30k"
    if by_hand:
        downloads.mkdir(parents=True)
        (downloads / name).write_bytes(content)
    pinned = dataclasses.replace(CATALOGUE["multi30k"], md5s={name: "0" * 32})
    monkeypatch.setitem(CATALOGUE, "multi30k", pinned)
    found = hashlib.md5(content).hexdigest()
    with pytest.raises(FailureError, match=rf"{re.escape(name)} has the MD5 checksum {found}; expected {'0' * 32}"):
        fetch(config(tmp_path, "multi30k"))
    assert not (downloads / "SHA256SUMS").exists()
    monkeypatch.setitem(CATALOGUE, "multi30k", dataclasses.replace(pinned, md5s={name: found}))
    folder = fetch(config(tmp_path, "multi30k"))
    assert f"no checksum of {name}" not in capsys.readouterr().err
    assert hashlib.sha256(content).hexdigest() in (downloads / "SHA256SUMS").read_text()
    for path in folder.iterdir():
        path.unlink()
    (downloads / name).write_bytes(b"anders\n")
    with pytest.raises(FailureError, match=r"has the SHA-256 checksum .* the checksum of the first download"):
        fetch(config(tmp_path, "multi30k"))


def test_pinned_md5_checksums_belong_to_published_files():
    corpora = [corpus for corpus in CATALOGUE.values() if corpus.md5s]
    assert [corpus.name for corpus in corpora] == ["wmt14"]
    for corpus in corpora:
        assert set(corpus.md5s) <= {url.rpartition("/")[2] for url in corpus.urls}
        assert all(re.fullmatch("[0-9a-f]{32}", digest) for digest in corpus.md5s.values())


def test_pinned_checksums_are_those_of_the_text_the_results_were_measured_on(data_dir):
    """The published files of Multi30k are its prepared files before compression."""
    corpus = CATALOGUE["multi30k"]
    for name, digest in corpus.checksums.items():
        part, language = name.partition(".")[0], name[-2:]
        split = {"train": "train", "val": "valid", "test_2016_flickr": "test"}[part]
        text = gzip.decompress((data_dir / "multi30k" / f"{split}.{language}.gz").read_bytes())
        assert hashlib.sha256(text).hexdigest() == digest
        assert len(text) < corpus.most_bytes
        assert any(url.endswith(f"/{name}") for url in corpus.urls)


def test_a_server_that_sends_without_end_is_stopped(site, tmp_path, monkeypatch):
    publish_multi30k(site)
    monkeypatch.setitem(CATALOGUE, "multi30k", dataclasses.replace(CATALOGUE["multi30k"], most_bytes=20))
    with pytest.raises(FailureError, match="has 36 bytes; expected at most 20"):
        fetch(config(tmp_path, "multi30k"))


def test_without_a_network_what_to_do_is_said_in_one_line(tmp_path, monkeypatch):
    def refuse(url, target, checksum, most_bytes):
        raise FailureError(f"could not download {url}: there is no network, or no such server")

    monkeypatch.setattr(fetching, "download", refuse)
    with pytest.raises(FailureError) as error:
        prepare(config(tmp_path, "multi30k"))
    message = str(error.value)
    assert "\n" not in message
    for part in (
        "there is no network",
        "train.lc.norm.tok.de, train.lc.norm.tok.en, val.lc.norm.tok.de",
        "from https://raw.githubusercontent.com/multi30k/dataset/",
        f"put them into {tmp_path / 'data' / 'downloads' / 'multi30k'} and run `bleugrad data --corpus multi30k`",
        "set BLEUGRAD_DATA to a folder whose multi30k/ holds {train,valid,test}.{de,en}.gz",
        "bleugrad train --data-corpus builtin",
    ):
        assert part in message
    assert list((tmp_path / "data").iterdir()) == [], "nothing is left behind"


def test_files_put_there_by_hand_are_used(site, tmp_path):
    publish_multi30k(site)
    downloads = tmp_path / "data" / "downloads" / "multi30k"
    downloads.mkdir(parents=True)
    for path, content in site.files.items():
        (downloads / path.rpartition("/")[2]).write_bytes(content)
    assert len(prepare(config(tmp_path, "multi30k")).train) == 3
    assert site.requests == []


def test_an_absent_file_is_named_and_what_came_before_it_is_kept(site, tmp_path):
    publish_multi30k(site)
    last = urlsplit(CATALOGUE["multi30k"].urls[-1]).path
    content = site.files.pop(last)
    with pytest.raises(FailureError, match=r"test_2016_flickr\.lc\.norm\.tok\.en: the server answered 404"):
        fetch(config(tmp_path, "multi30k"))
    assert not (tmp_path / "data" / "multi30k").exists()
    site.files[last] = content
    site.requests.clear()
    fetch(config(tmp_path, "multi30k"))
    assert site.requests == [last]


@pytest.mark.parametrize("wrong", ["count", "sides", "empty"])
def test_text_of_the_wrong_size_does_not_become_a_corpus(site, tmp_path, monkeypatch, wrong):
    publish_multi30k(site)
    path = urlsplit(CATALOGUE["multi30k"].urls[0]).path
    if wrong == "count":
        changed = dataclasses.replace(CATALOGUE["multi30k"], counts={"train": 29000})
        monkeypatch.setitem(CATALOGUE, "multi30k", changed)
    elif wrong == "sides":
        site.files[path] += b"zuviel\n"
    else:
        site.files |= {urlsplit(url).path: b"" for url in CATALOGUE["multi30k"].urls[:2]}
    with pytest.raises(FailureError, match=r"train of multi30k has \d \(de\) and \d \(en\) lines; expected"):
        fetch(config(tmp_path, "multi30k"))
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["downloads"]


def test_a_preparation_that_was_killed_is_begun_anew(site, tmp_path):
    publish_multi30k(site)
    stale = tmp_path / "data" / ".multi30k.preparing"
    stale.mkdir(parents=True)
    (stale / "train.de.gz").write_bytes(b"half")
    folder = fetch(config(tmp_path, "multi30k"))
    assert len(read_lines(folder / "train.de.gz")) == 3
    assert not stale.exists()


def test_what_somebody_else_put_there_is_not_touched(site, tmp_path):
    publish_multi30k(site)
    folder = tmp_path / "data" / "multi30k"
    folder.mkdir(parents=True)
    (folder / "train.de").write_text("mein text\n")
    with pytest.raises(
        FailureError, match=r"multi30k has no train\.en\.gz, valid\.de\.gz, .*expected a complete corpus"
    ):
        fetch(config(tmp_path, "multi30k"))
    assert [path.name for path in folder.iterdir()] == ["train.de"]
    (tmp_path / "data" / "wmt14").write_text("")
    with pytest.raises(FailureError, match="wmt14 is a file"):
        fetch(config(tmp_path, "wmt14"))


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(FailureError, match=r"cannot be written there: .*; set BLEUGRAD_DATA to a folder"):
        fetch(config(tmp_path, "multi30k"))


def test_other_languages_are_refused(tmp_path):
    with pytest.raises(UsageError, match="the languages are de-fr; expected de and en, which multi30k is published in"):
        prepare(config(tmp_path, "multi30k", target_language="fr"))


def test_wmt14_has_its_lists_of_words(site, tmp_path):
    contents = {
        f"{part}.{language}": text
        for part, text in (
            ("train", b"A b\n" * 4),
            ("newstest2013", b"A\n" * 2),
            ("newstest2014", b"b\n"),
            ("vocab.50K", b"<unk>\n<s>\n</s>\nA\n"),
        )
        for language in ("de", "en")
    }
    publish(site, "wmt14", contents)
    settings = config(tmp_path, "wmt14", vocabulary_source="corpus")
    corpus = prepare(settings)
    assert (len(corpus.train), len(corpus.valid), len(corpus.test), corpus.others) == (4, 2, 1, {})
    assert build_vocabularies(corpus, settings)[0].tokens[4:] == ["A"]


def iwslt_archive(lines):
    """A small archive as published: training text with tags, test text as XML."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for language, (first, tests) in lines.items():
            files = {f"train.tags.de-en.{language}": "\n".join(first) + "\n"}
            for name, text in tests.items():
                files[f"IWSLT14.{name}.de-en.{language}.xml"] = f'<doc>\n<seg id="1"> {text} </seg>\n</doc>\n'
            for name, text in files.items():
                member = tarfile.TarInfo(f"de-en/{name}")
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def test_iwslt14_as_the_paper_s_predecessors_prepared_it(site, tmp_path):
    pytest.importorskip("sacremoses")
    sets = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
    english_line = "It's number {}, isn't it?"
    german = ["<url>http://x</url>", "<talkid>1</talkid>", "<keywords>a, b</keywords>", "<title>Ein Titel</title>"]
    english = ["<url>http://x</url>", "<talkid>1</talkid>", "<keywords>a, b</keywords>", "<title>A title</title>"]
    german += [f"Es ist die Nummer {n}, oder?" for n in range(43)] + ["Ein Titel", "Kurz.", "wort " * 51]
    english += [english_line.format(n) for n in range(43)] + ["A title", "Much too long for that.", "word " * 51]
    archive = iwslt_archive(
        {
            "de": (german, {name: f"Der Satz {place} steht hier." for place, name in enumerate(sets)}),
            "en": (english, {name: f"It\u2019s number {place}." for place, name in enumerate(sets)}),
        }
    )
    publish(site, "iwslt14", {"de-en.tgz": archive})
    corpus = prepare(config(tmp_path, "iwslt14"))
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (44, 1, 5), "every 23rd pair validates"
    assert (corpus.train.sources[0], corpus.train.targets[0]) == ("ein titel", "a title")
    assert corpus.train.targets[1] == "it &apos;s number 0 , isn &apos;t it ?"
    assert corpus.valid.targets == ["it &apos;s number 21 , isn &apos;t it ?"]
    assert corpus.test.sources == [f"der satz {place} steht hier ." for place in range(5)]
    assert corpus.test.targets == [f"it &apos;s number {place} ." for place in range(5)]
    german_words, english_words = build_vocabularies(corpus, config(tmp_path, **preset("iwslt14")["data"]))
    assert set(english_words.tokens[4:]) == {"it", "&apos;s", "number", ",", "isn", "&apos;t", "?"}
    assert set(german_words.tokens[4:]) == {"es", "ist", "die", "nummer", ",", "oder", "?"}


@pytest.mark.parametrize("changed", [None, "test.en"])
def test_text_that_is_not_the_paper_s_is_reported(site, tmp_path, monkeypatch, capsys, changed):
    publish_multi30k(site)
    texts = {f"test.{one}": hashlib.sha256(f"ein satz {one}\n".encode()).hexdigest() for one in ("de", "en")}
    if changed:
        texts[changed] = "0" * 64
    monkeypatch.setitem(CATALOGUE, "multi30k", dataclasses.replace(CATALOGUE["multi30k"], texts=texts))
    fetch(config(tmp_path, "multi30k"))
    said = capsys.readouterr().err
    message = "multi30k: not the text that the paper used (other SHA-256 checksum): test.en; "
    assert (message in said) == (changed is not None)


def test_texts_of_iwslt14_are_those_of_the_paper(data_dir):
    for name, digest in CATALOGUE["iwslt14"].texts.items():
        text = gzip.decompress((data_dir / "iwslt14" / f"{name}.gz").read_bytes())
        assert hashlib.sha256(text).hexdigest() == digest


@pytest.mark.parametrize("language", ["de", "en"])
def test_the_published_word_lists_hold_the_words_that_occur_three_times(data_dir, language):
    """A part of the training text is at hand: words that occur three times in it are listed, those of two often not."""
    folder = data_dir / "iwslt14"
    listed = set(gzip.decompress((folder / f"vocab.{language}.gz").read_bytes()).decode().split("\n"))
    words = gzip.decompress((folder / f"train.{language}.gz").read_bytes()).decode().split()
    counts = Counter(words)
    assert statistics.mean(word in listed for word, count in counts.items() if count >= 3) > 0.999
    assert statistics.mean(word in listed for word, count in counts.items() if count == 2) < 0.9


def test_an_archive_of_something_else_is_said_to_be_one(site, tmp_path):
    publish(site, "iwslt14", {"de-en.tgz": iwslt_archive({})})
    with pytest.raises(FailureError, match=r"holds no de-en/train\.tags\.de-en\.de"):
        fetch(config(tmp_path, "iwslt14"))
    (tmp_path / "data" / "downloads" / "iwslt14" / "SHA256SUMS").unlink()
    (tmp_path / "data" / "downloads" / "iwslt14" / "de-en.tgz").write_bytes(b"no archive")
    with pytest.raises(FailureError, match=r"de-en\.tgz cannot be read"):
        fetch(config(tmp_path, "iwslt14"))


def tatoeba_export(count):
    """Sentence n of either language; n and n+1 share the English one where n divides by 10."""
    german = "".join(f"{n}\tdeu\tSatz {n % 20} am Tag {n // 20} hier.\n" for n in range(count))
    english = (
        "".join(f"{1000 + n}\teng\tIt's sentence {n % 20} on day {n // 20}.\n" for n in range(count))
        + "5\teng\tnot linked\n"
    )
    links = "".join(f"{n}\t{1000 + n}\n" for n in range(count))
    links += "".join(f"{n + 1}\t{1000 + n}\n{n}\t{1000 + n + 2}\n" for n in range(0, count - 2, 10)) + "99999\t1000\n"
    tables = {"deu_sentences": german, "eng_sentences": english, "deu-eng_links": links}
    return {f"{name}.tsv.bz2": bz2.compress(text.encode()) for name, text in tables.items()}


def test_tatoeba_shares_no_sentence_across_parts(site, tmp_path):
    pytest.importorskip("sacremoses")
    publish(site, "tatoeba", tatoeba_export(400))
    corpus = prepare(config(tmp_path, "tatoeba"))
    parts = [corpus.train, corpus.valid, corpus.test]
    assert [len(part) > 0 for part in parts] == [True] * 3
    for side in (
        [set(part.sources) for part in parts],
        [{text for choices in part.references for text in choices} for part in parts],
    ):
        assert sum(map(len, side)) == len(set.union(*side)) == 400
    assert corpus.train.most_references == 1
    assert corpus.test.most_references + corpus.valid.most_references > 2, "some have several translations"
    assert "it 's sentence 7 on day 3 ." in set.union(*({t for c in part.references for t in c} for part in parts))


def test_tatoeba_tiny_is_made_from_tatoeba(site, tmp_path, monkeypatch):
    pytest.importorskip("sacremoses")
    publish(site, "tatoeba", tatoeba_export(400))
    monkeypatch.setattr(tatoeba, "TINY_WORDS", (22, 22))
    corpus = prepare(config(tmp_path, "tatoeba_tiny"))
    whole = prepare(config(tmp_path, "tatoeba"))
    assert 0 < len(corpus.train) < len(whole.train)
    assert set(corpus.train.sources) < set(whole.train.sources)
    assert len({word for line in corpus.train.sources for word in line.split()}) <= 22


def test_a_missing_library_is_said_before_anything_is_downloaded(site, tmp_path, monkeypatch):
    monkeypatch.setattr("bleugrad.lab.extras.find_spec", lambda name: None)
    with pytest.raises(FailureError, match=r"needs sacremoses, which is not installed.*bleugrad\[text\]"):
        fetch(config(tmp_path, "tatoeba"))
    assert site.requests == []


def test_a_damaged_export_is_named(site, tmp_path):
    tables = tatoeba_export(10)
    publish(site, "tatoeba", tables | {"deu-eng_links.tsv.bz2": tables["deu-eng_links.tsv.bz2"][:-9]})
    with pytest.raises(FailureError, match=r"deu-eng_links\.tsv\.bz2 cannot be read"):
        fetch(config(tmp_path, "tatoeba"))
    publish(site, "tatoeba", tables | {"deu-eng_links.tsv.bz2": bz2.compress(b"1\t2\n3\n")})
    with pytest.raises(FailureError, match="line 2 has 1 columns; expected at least 2"):
        fetch(config(tmp_path / "again", "tatoeba"))


def test_an_export_that_expands_without_end_is_stopped(site, tmp_path, monkeypatch):
    monkeypatch.setattr(tatoeba, "MOST_BYTES", 1000)
    publish(site, "tatoeba", tatoeba_export(10) | {"deu-eng_links.tsv.bz2": bz2.compress(b"1\t2\n" * 251)})
    with pytest.raises(FailureError, match=r"deu-eng_links\.tsv\.bz2 holds more than 1000 characters"):
        fetch(config(tmp_path, "tatoeba"))


def test_an_archive_whose_member_is_endless_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(iwslt14, "MOST_BYTES", 1000)
    with tarfile.open(tmp_path / "de-en.tgz", "w:gz") as tar:
        member = tarfile.TarInfo("de-en/train.tags.de-en.de")
        member.size = 1001
        tar.addfile(member, io.BytesIO(b"\0" * 1001))
    with pytest.raises(FailureError, match=r"train\.tags\.de-en\.de holds more than 1000 bytes"):
        iwslt14.prepare_iwslt14(tmp_path, tmp_path)
