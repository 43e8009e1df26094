"""From a corpus to ids: both sides, all references, vocabularies from text or from lists."""

import gzip

import pytest

from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.corpus import Corpus, Split
from bleugrad.lab.data.encoding import build_vocabularies, encode_split
from bleugrad.lab.data.vocabulary import WordVocabulary
from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.special_ids import UNK

TRAIN = Split(["das haus", "das alte haus", "ja"], [("the house", "the home"), ("the old house",), ("yes",)])
CORPUS = Corpus("tiny", TRAIN, TRAIN, TRAIN)


def test_every_reference_is_encoded_and_the_first_is_the_target():
    source, target = build_vocabularies(CORPUS, DataConfig(min_count=1))
    encoded = encode_split(TRAIN, source, target)
    assert len(encoded) == 3
    assert [source.decode(ids) for ids in encoded.sources] == TRAIN.sources
    assert [target.decode(ids) for ids in encoded.targets] == TRAIN.targets
    decoded = [tuple(target.decode(ids) for ids in references) for references in encoded.references]
    assert decoded == TRAIN.references


def test_one_reference_each_is_the_target():
    source, target = build_vocabularies(CORPUS, DataConfig(min_count=1))
    encoded = encode_split(Split(["das", ""], [("the",), ("yes",)]), source, target)
    assert encoded.references == [[ids] for ids in encoded.targets]
    assert encoded.sources[1] == []


def test_words_of_all_references_count_for_the_vocabulary():
    _, target = build_vocabularies(CORPUS, DataConfig(min_count=1))
    assert "home" in target.tokens
    source, target = build_vocabularies(CORPUS, DataConfig(min_count=2, vocabulary_size=5))
    assert (source.tokens[4:], target.tokens[4:]) == (["das"], ["the"])


def test_subwords_on_both_sides():
    source, target = build_vocabularies(CORPUS, DataConfig(units="bpe", vocabulary_size=40))
    assert source.decode(source.encode("das haus ja")) == "das haus ja"
    assert target.word_start() is not None
    with pytest.raises(UsageError, match="vocabulary_size is 8; expected at least"):
        build_vocabularies(CORPUS, DataConfig(units="bpe", vocabulary_size=8))


@pytest.mark.parametrize("units", ["words", "bpe"])
def test_a_joint_vocabulary_has_the_words_of_both(units):
    source, target = build_vocabularies(CORPUS, DataConfig(units=units, min_count=1, vocabulary_size=40, joint=True))
    assert source == target
    for line in ("das alte haus", "the old house"):
        assert UNK not in source.encode(line)


def test_lists_of_words_given_or_of_the_corpus(tmp_path):
    (tmp_path / "words.de").write_text("haus\n</s>\n<unk>\n")
    (tmp_path / "vocab.en.gz").write_bytes(gzip.compress(b"house\nthe\n"))
    config = DataConfig(
        corpus="files",
        directory=str(tmp_path),
        vocabulary_source=str(tmp_path / "words.de"),
        vocabulary_target="corpus",
    )
    source, target = build_vocabularies(CORPUS, config)
    assert source == WordVocabulary.from_list(["haus"])
    assert target.encode("the old house") == [5, UNK, 4]
    (tmp_path / "words.de").write_text("haus 7\n")
    with pytest.raises(FailureError, match=r"words\.de: entry 1 of the list of words is 'haus 7'"):
        build_vocabularies(CORPUS, config)
    with pytest.raises(UsageError, match=r"vocabulary_source is 'corpus' and builtin has no vocab\.de"):
        build_vocabularies(CORPUS, DataConfig(vocabulary_source="corpus"))


def test_no_training_text_is_a_failure():
    empty = Corpus("tiny", Split([], []), TRAIN, TRAIN)
    with pytest.raises(FailureError, match="no training pair of tiny passed the filters"):
        build_vocabularies(empty, DataConfig())


@pytest.mark.parametrize("split", ["valid", "test"])
def test_the_published_vocabularies_of_iwslt14_give_the_published_text(data_dir, split):
    """Every line of both languages, with the paper's rare words replaced as its authors' predecessors published it."""
    folder = data_dir / "iwslt14"
    if not folder.is_dir():
        pytest.skip(f"no corpus at {folder}")
    settings = DataConfig(
        corpus="iwslt14", directory=str(data_dir), vocabulary_source="corpus", vocabulary_target="corpus"
    )
    vocabularies = build_vocabularies(CORPUS, settings)
    assert [len(one) for one in vocabularies] == [32011, 22824]
    for language, vocabulary in zip(("de", "en"), vocabularies, strict=True):
        with gzip.open(folder / f"{split}.{language}.gz", "rt", encoding="utf-8") as file:
            found = [vocabulary.decode(vocabulary.encode(line.rstrip("\n"))) for line in file]
        with gzip.open(folder / f"{split}.unk.{language}.gz", "rt", encoding="utf-8") as file:
            published = file.read().splitlines()
        assert len(found) > 6000
        assert found == published
