import json

import pytest

from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.encoding import build_vocabularies
from bleugrad.lab.data.preparation import prepare
from bleugrad.lab.data.sentencepiece import SentencePieceVocabulary
from bleugrad.lab.data.vocabulary import read_vocabulary
from bleugrad.lab.errors import FailureError, UsageError
from bleugrad.lab.settings.loading import build
from bleugrad.lab.special_ids import SPECIAL, UNK

pytest.importorskip("sentencepiece")
TEXT = ["the cat sees the dog", "the lower house", "a newest cat", "lowest and newest", "dogs and cats"] * 20


@pytest.fixture(scope="module")
def vocabulary():
    return SentencePieceVocabulary.build(TEXT, 60)


def test_text_comes_back(vocabulary):
    assert len(vocabulary) <= 60
    assert vocabulary.tokens[:4] == list(SPECIAL)
    for line in [*TEXT[:5], "", "cats lower the cat"]:
        ids = vocabulary.encode(line)
        assert min(ids, default=4) >= 4
        assert vocabulary.decode(ids) == line
    assert vocabulary.encode_lines(TEXT[:5]) == [vocabulary.encode(line) for line in TEXT[:5]]


def test_what_the_model_does_not_know_is_unk(vocabulary):
    assert UNK in vocabulary.encode("the 猫")
    assert "<unk>" in vocabulary.decode(vocabulary.encode("the 猫"))
    assert not {0, 2, 3} & set(vocabulary.encode("</s> <pad> <s>")), "special tokens in a text are plain text"


def test_words_start_where_spaces_are(vocabulary):
    starts = vocabulary.word_start()
    assert starts[:4] == [True] * 4
    for line in TEXT[:5]:
        assert sum(starts[index] for index in vocabulary.encode(line)) == len(line.split())


def test_the_saved_vocabulary_holds_the_model(vocabulary):
    again = read_vocabulary(json.loads(json.dumps(vocabulary.to_json())))
    assert again == vocabulary
    assert again.encode("lowest cats") == vocabulary.encode("lowest cats")
    for wrong in ("", "!!", None):
        with pytest.raises(ValueError, match=r"model|content|base64|pieces|Only|padding"):
            read_vocabulary(vocabulary.to_json() | {"model": wrong})


def test_training_is_deterministic(vocabulary):
    assert SentencePieceVocabulary.build(TEXT, 60).tokens == vocabulary.tokens


def write(folder):
    for split in ("train", "valid", "test"):
        for language in ("de", "en"):
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in TEXT))
    return {"corpus": "files", "directory": str(folder), "units": "sentencepiece"}


def test_a_model_is_read_from_its_file(tmp_path, vocabulary):
    values, path = write(tmp_path), tmp_path / "sp.model"
    models = {"sentencepiece_source": str(path), "sentencepiece_target": str(path)}
    config = build(DataConfig, values | models)
    with pytest.raises(FailureError, match=r"cannot read the sentencepiece model .*sp.model: No such file"):
        build_vocabularies(prepare(config), config)
    path.write_bytes(b"something else")
    with pytest.raises(FailureError, match=r"sp.model is no sentencepiece model"):
        build_vocabularies(prepare(config), config)
    path.write_bytes(vocabulary.model)
    assert build_vocabularies(prepare(config), config) == (vocabulary, vocabulary)


@pytest.mark.parametrize("units", ["words", "bpe", "sentencepiece"])
def test_a_joint_vocabulary_has_the_words_of_both(tmp_path, units):
    values = write(tmp_path) | {"units": units, "min_count": 1, "vocabulary_size": 40, "joint": True}
    (tmp_path / "train.de").write_text("die katze sieht\n" * len(TEXT))
    config = build(DataConfig, values)
    source, target = build_vocabularies(prepare(config), config)
    assert source == target
    for line in ("die katze", "the cat"):
        assert UNK not in source.encode(line)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"units": "bpe", "sentencepiece_source": "a"}, "units is 'bpe' and a sentencepiece model is given"),
        ({"sentencepiece_source": "a"}, "for one language only; expected both, or none"),
        ({"joint": True, "sentencepiece_source": "a", "sentencepiece_target": "b"}, "expected the same file"),
    ],
)
def test_bad_settings_are_named(more, message):
    with pytest.raises(UsageError, match=message):
        build(DataConfig, {"units": "sentencepiece"} | more)
