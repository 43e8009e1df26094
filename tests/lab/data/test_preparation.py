"""From settings to a corpus: folders, files, the built-in corpus; filters touch training text only."""

import gzip

import pytest

from bleugrad.lab.data.checksums import write_sums
from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.corpus import Split
from bleugrad.lab.data.encoding import build_vocabularies
from bleugrad.lab.data.preparation import prepare
from bleugrad.lab.errors import FailureError, UsageError


def lay_out(folder, **splits):
    """A prepared corpus: split=(German lines, English lines)."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, sides in splits.items():
        for language, lines in zip(("de", "en"), sides, strict=True):
            content = "".join(f"{line}\n" for line in lines).encode()
            (folder / f"{split}.{language}.gz").write_bytes(gzip.compress(content))
    return folder


LONG = "wort " * 10_000
SPLITS = {
    "train": (["Eins", "", "zwei", LONG, "drei"], ["One", "x", "two", "long", "three"]),
    "valid": (["", "wort " * 1000], ["nothing", "long"]),
    "test": (["eins"], ["One"]),
}


@pytest.fixture
def root(tmp_path):
    lay_out(tmp_path / "multi30k", **SPLITS)
    return tmp_path


def test_filters_touch_training_text_only(root):
    corpus = prepare(DataConfig(corpus="multi30k", directory=str(root)))
    assert corpus.train == Split(["Eins", "zwei", "drei"], [("One",), ("two",), ("three",)])
    assert corpus.dropped == {"empty": 1, "too long": 1, "ratio": 0}
    assert (len(corpus.valid), len(corpus.test)) == (2, 1)
    assert corpus.valid.sources[0] == ""
    assert corpus.origin == str(root / "multi30k")


@pytest.mark.parametrize("split", ["valid", "test", "news"])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("line", ["w " * 1001, "w" * 10_001], ids=["words", "characters"])
def test_text_that_is_scored_has_no_endless_lines(root, split, side, line):
    """Translating 200,000 words would take too long."""
    lines = [["eins", "zwei"], ["one", "two"]]
    lines[side][1] = line
    folder = lay_out(root / "multi30k", **{split: lines})
    name = folder / f"{split}.{('de', 'en')[side]}.gz"
    counts = f"{len(line.split())} words and {len(line)} characters; expected at most 1000 and 10000: split"
    with pytest.raises(FailureError, match=rf"{name}, line 2 has {counts}"):
        prepare(DataConfig(corpus="multi30k", directory=str(root)))


def test_a_further_reference_is_no_longer_than_the_target_may_be(root):
    (root / "multi30k" / "test.refs.en").write_text("one\t" + "w " * 1001 + "\n")
    with pytest.raises(FailureError, match=r"line 1 has 1001 words"):
        prepare(DataConfig(corpus="multi30k", directory=str(root)))


@pytest.mark.parametrize(("max_length", "kept"), [(0, 1000), (1500, 1500)])
def test_without_a_limit_training_lines_still_have_one(root, max_length, kept):
    """A given limit is used, even if it is larger than the default."""
    sources = ["wort " * count for count in (1, 1000, 1001, 1500, 1501)] + ["w" * 20_000]
    lay_out(root / "multi30k", train=(sources, ["one"] * len(sources)))
    config = DataConfig(corpus="multi30k", directory=str(root), max_length=max_length, max_ratio=0)
    corpus = prepare(config)
    assert max(len(line.split()) for line in corpus.train.sources) == kept
    assert corpus.dropped["too long"] == len(sources) - len(corpus.train)
    assert not any(len(line) == 20_000 for line in corpus.train.sources)


def test_a_part_of_the_training_text_and_lowercase(root):
    corpus = prepare(DataConfig(corpus="multi30k", directory=str(root), train_limit=2, lowercase=True))
    assert corpus.train == Split(["eins", "zwei"], [("one",), ("two",)])
    assert corpus.test.targets == ["one"]


def test_the_other_direction(root):
    lay_out(root / "multi30k", valid=(["eins"], ["one"]))
    config = DataConfig(corpus="multi30k", directory=str(root), source_language="en", target_language="de")
    assert prepare(config).test == Split(["One"], [("eins",)])


def test_further_references_and_splits_of_the_folder(root):
    folder = lay_out(root / "multi30k", news=(["neu"], ["new"]), vocab=(["x"], ["y"]))
    (folder / "test.refs.en.gz").write_bytes(gzip.compress(b"1\tOne\n"))
    corpus = prepare(DataConfig(corpus="multi30k", directory=str(root)))
    assert corpus.test.references == [("One", "1")]
    assert corpus.split("news") == corpus.others["news"] == Split(["neu"], [("new",)])
    assert set(corpus.others) == {"news"}
    with pytest.raises(UsageError, match="split is 'dev'; expected one of train, valid, test, news"):
        corpus.split("dev")


def test_the_variable_says_where_to_look_and_the_setting_overrides_it(root, tmp_path, monkeypatch):
    monkeypatch.setenv("BLEUGRAD_DATA", str(root))
    assert len(prepare(DataConfig(corpus="multi30k")).test) == 1
    lay_out(tmp_path / "mine" / "multi30k", **{**SPLITS, "test": (["a", "b"], ["c", "d"])})
    assert len(prepare(DataConfig(corpus="multi30k", directory=str(tmp_path / "mine"))).test) == 2
    monkeypatch.delenv("BLEUGRAD_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lay_out(tmp_path / "cache" / "bleugrad" / "data" / "multi30k", **{**SPLITS, "test": (["a"] * 3, ["c"] * 3)})
    assert len(prepare(DataConfig(corpus="multi30k")).test) == 3


def test_a_damaged_corpus_is_not_used(root):
    folder = root / "multi30k"
    write_sums(folder, [path.name for path in folder.iterdir()])
    prepare(DataConfig(corpus="multi30k", directory=str(root)))
    lay_out(folder, test=(["zwei"], ["One"]))
    with pytest.raises(FailureError, match=r"test\.de\.gz has the SHA-256 checksum"):
        prepare(DataConfig(corpus="multi30k", directory=str(root)))


@pytest.mark.parametrize("split", ["valid", "test"])
def test_an_empty_translation_to_score_against_is_named_with_its_line(root, split):
    lay_out(root / "multi30k", **{split: (["a", "b"], ["c", ""])})
    with pytest.raises(FailureError, match=rf"{split}\.en\.gz, line 2: the line is empty"):
        prepare(DataConfig(corpus="multi30k", directory=str(root)))


def test_files_one_by_one_the_test_set_left_out(tmp_path):
    names = {}
    for split in ("train", "valid"):
        for side, text in (("source", "eins\nzwei\n"), ("target", "one\tfirst\ntwo\n")):
            path = tmp_path / f"{split}.{side}.txt"
            path.write_text(text)
            names[f"{split}_{side}"] = str(path)
    corpus = prepare(DataConfig(corpus="files", **names))
    assert corpus.train.references == corpus.valid.references == [("one", "first"), ("two",)]
    assert len(corpus.test) == 0
    with pytest.raises(UsageError, match="cannot read"):
        prepare(DataConfig(corpus="files", **names | {"valid_target": str(tmp_path / "absent")}))
    (tmp_path / "valid.target.txt").write_text("one\n")
    with pytest.raises(FailureError, match=r"valid\.source\.txt has 2 lines and .*valid\.target\.txt has 1"):
        prepare(DataConfig(corpus="files", **names))


def test_files_of_a_folder_some_given_otherwise(tmp_path):
    folder = lay_out(tmp_path / "mine", train=SPLITS["train"], valid=SPLITS["valid"], news=(["neu"], ["new"]))
    (tmp_path / "a").write_text("a\n")
    config = DataConfig(
        corpus="files", directory=str(folder), test_source=str(tmp_path / "a"), test_target=str(tmp_path / "a")
    )
    corpus = prepare(config)
    assert corpus.test == Split(["a"], [("a",)])
    assert len(corpus.train) == 3
    assert set(corpus.others) == {"news"}
    assert len(prepare(DataConfig(corpus="files", directory=str(folder))).test) == 0
    with pytest.raises(UsageError, match="only one side of train is given"):
        prepare(DataConfig(corpus="files", directory=str(folder), train_source="a"))
    with pytest.raises(UsageError, match="which is not a folder"):
        prepare(DataConfig(corpus="files", directory=str(folder / "absent")))
    (folder / "valid.en.gz").unlink()
    with pytest.raises(FailureError, match=r"has no valid\.en\.gz and no valid\.en; expected one of them"):
        prepare(DataConfig(corpus="files", directory=str(folder)))


def test_the_built_in_corpus_needs_no_files():
    config = DataConfig(builtin_train=300, builtin_valid=20, builtin_test=30)
    corpus = prepare(config)
    assert (len(corpus.train) + sum(corpus.dropped.values()), len(corpus.valid), len(corpus.test)) == (300, 20, 30)
    assert prepare(config) == corpus
    with pytest.raises(UsageError, match="builtin_train is 20001; expected at most 20000"):
        DataConfig(builtin_train=20001)
    assert corpus.test.most_references > 1


def test_the_corpora_at_hand(data_dir):
    sizes = {"multi30k": (29000, 1014, 1000), "tatoeba_tiny": (20000, 500, 500), "iwslt14": (44885, 6969, 6750)}
    for name, expected in sizes.items():
        config = DataConfig(corpus=name, directory=str(data_dir))
        corpus = prepare(config)
        assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == expected
    config = DataConfig(corpus="iwslt14", directory=str(data_dir), vocabulary_source="corpus")
    assert len(build_vocabularies(prepare(config), config)[0]) == 32011
