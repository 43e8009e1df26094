"""Encoded text on disk equals encoded text in memory, is made once, and is made again if anything changed."""

import multiprocessing
import shutil

import pytest

from bleugrad.lab.data import cache
from bleugrad.lab.data.batches import BatchPlan
from bleugrad.lab.data.cache import cached_train
from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.encoding import build_vocabularies, encode_split
from bleugrad.lab.data.preparation import prepare
from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.settings.loading import build

SOURCES = ["die katze", "ein hund .", "", "die katze und ein hund", "Haus", "x " * 60]
TARGETS = ["the cat\ta cat", "a dog .", "nothing", "the cat and a dog\tcat and dog\tcats , dogs", "house", "y " * 60]


@pytest.fixture
def values(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split in ("train", "valid", "test"):
        for language, lines in (("de", SOURCES), ("en", TARGETS)):
            kept = lines if split == "train" else lines[:2]
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in kept))
    shared = {"corpus": "files", "directory": str(folder), "min_count": 1}
    return shared | {"cache": str(tmp_path / "cache")}


def lists(encoded):
    places = range(len(encoded))
    return [[side[place] for place in places] for side in (encoded.sources, encoded.targets, encoded.references)]


def builds(monkeypatch):
    """The keys of the entries that are made from here on."""
    made, build_entry = [], cache._build
    monkeypatch.setattr(cache, "_build", lambda root, key, *more: made.append(key) or build_entry(root, key, *more))
    return made


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"lowercase": True, "train_limit": 2},
        {"units": "bpe", "vocabulary_size": 40, "joint": True},
        {"raw": True},
        {"corpus": "builtin", "directory": "", "builtin_train": 50},
    ],
)
def test_equals_the_text_in_memory(values, more, monkeypatch):
    monkeypatch.setattr(cache, "BATCH", 2)
    config = build(DataConfig, values | more)
    corpus = prepare(config)
    vocabularies = build_vocabularies(corpus, config)
    expected = encode_split(corpus.train, *vocabularies)
    for _ in range(2):  # made, then found
        found = cached_train(config)
        assert found.vocabularies == vocabularies
        assert lists(found.encoded) == lists(expected)
        assert found.encoded.has_more == expected.has_more
        if config.corpus != "builtin" and not config.train_limit:
            assert dict(found.dropped) == dict(corpus.dropped)
    plans = [BatchPlan(encoded, by="tokens", size=12, seed=3) for encoded in (found.encoded, expected)]
    assert plans[0].epoch(2) == plans[1].epoch(2)
    assert plans[0].collate(plans[0].epoch(1)[0]).labels.equal(plans[1].collate(plans[1].epoch(1)[0]).labels)


def test_an_entry_is_made_once(values, monkeypatch):
    made = builds(monkeypatch)
    first = cached_train(build(DataConfig, values))
    again = cached_train(build(DataConfig, values | {"batch_size": 7}))
    assert made == [first.key] == [again.key]


def test_other_text_settings_or_vocabularies_are_other_entries(values, tmp_path, monkeypatch):
    made = builds(monkeypatch)
    first = cached_train(build(DataConfig, values))
    cached_train(build(DataConfig, values | {"max_length": 3}))
    cached_train(build(DataConfig, values), first.vocabularies[::-1])
    path = tmp_path / "corpus" / "train.de"
    path.write_text(path.read_text().replace("katze", "kater"))  # of the same size
    changed = cached_train(build(DataConfig, values))
    assert len(set(made)) == 4
    assert "kater" in changed.vocabularies[0].tokens


@pytest.mark.parametrize(
    "name", ["source.ids", "target.ends", "others.counts", "vocabulary.source.json", cache.MANIFEST]
)
@pytest.mark.parametrize("damage", ["cut", "changed", "absent"])
def test_a_damaged_entry_is_made_again(values, monkeypatch, name, damage):
    config = build(DataConfig, values)
    first = cached_train(config)
    expected, path = lists(first.encoded), cache.Path(values["cache"]) / first.key / name
    content = path.read_bytes()
    if damage == "absent":
        path.unlink()
    else:
        path.write_bytes(content[:-3] if damage == "cut" else bytes([content[0] ^ 1]) + content[1:])
    made = builds(monkeypatch)
    assert lists(cached_train(config).encoded) == expected
    assert made == [first.key]


def test_numbers_out_of_range_are_refused_even_with_a_checksum(values):
    config = build(DataConfig, values)
    first = cached_train(config)
    folder = cache.Path(values["cache"]) / first.key
    for name in ("source.ids", "source.ends"):
        kept = (folder / name).read_bytes()
        (folder / name).write_bytes(b"\xff\x7f" * (len(kept) // 2))
        with pytest.raises(ValueError, match=r"id|ids|rise"):
            cache._read(folder, first.key, first.text, {"dropped": {}})
        (folder / name).write_bytes(kept)


def test_a_build_that_fails_leaves_nothing(values, tmp_path, monkeypatch):
    config = build(DataConfig, values)

    def fail(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(cache, "write_json", fail)
    with pytest.raises(KeyboardInterrupt):
        cached_train(config)
    assert list((tmp_path / "cache").iterdir()) == []
    monkeypatch.undo()
    (tmp_path / "corpus" / "train.en").write_text("one line\n")
    with pytest.raises(FailureError, match=r"train.de has 6 lines and .*train.en has 1; expected one pair per line"):
        cached_train(config)
    (tmp_path / "corpus" / "train.en").unlink()
    with pytest.raises((FailureError, UsageError), match=r"train\.en"):
        cached_train(config)


def make(values, queue):
    queue.put(lists(cached_train(build(DataConfig, values)).encoded))


def test_processes_share_an_entry(values):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=make, args=(values, queue)) for _ in range(3)]
    for worker in workers:
        worker.start()
    found = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert found[0] == found[1] == found[2]
    assert len(list(cache.Path(values["cache"]).iterdir())) == 1


def test_an_empty_text_has_no_pairs(values, tmp_path):
    for language in ("de", "en"):
        (tmp_path / "corpus" / f"train.{language}").write_text("\n")
    assert len(cached_train(build(DataConfig, values)).encoded) == 0
    shutil.rmtree(values["cache"])
