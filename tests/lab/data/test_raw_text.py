import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bleugrad.lab.data.config import DataConfig
from bleugrad.lab.data.raw_text import JOINER, Casing, RawVocabulary, join_words, split_words, untokenised
from bleugrad.lab.data.vocabulary import WordVocabulary, read_vocabulary
from bleugrad.lab.errors import UsageError
from bleugrad.lab.settings.loading import build

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=JOINER), max_size=30)


@given(TEXTS)
def test_joining_undoes_splitting(text):
    """But for spaces: one of each run is left, and none at the ends."""
    assert join_words(split_words(text)) == " ".join(text.split())


@given(TEXTS)
def test_words_are_letters_and_digits_or_one_other_character(text):
    for token in split_words(text).split():
        bare = token.strip(JOINER)
        assert len(bare) == 1 or all(one.isalnum() or one in ".," for one in bare)


def test_marks_in_the_text_itself_are_left_out():
    assert join_words(split_words(f"a{JOINER}b {JOINER}c")) == "ab c"


def test_the_case_of_first_words():
    lines = ["Das Haus ist alt", "Ein Haus", "Wir sehen das Haus", "und das NATO Haus", "Anna", "die NATO"]
    casing = Casing.learn(lines)
    assert casing.lower("Das Haus") == "das Haus"
    assert casing.lower("Haus und Hof") == "Haus und Hof"
    assert casing.lower("Nato hier") == "NATO hier"
    assert casing.lower("Anna kommt") == "Anna kommt", "seen at the beginning only"
    assert casing.lower("Unbekannt ist das") == "unbekannt ist das"
    assert casing.lower("") == ""


def test_a_vocabulary_of_ordinary_text(tmp_path):
    lines = ["The cat, it's here.", "A dog sees the cat.", "Where is the dog?"]
    casing = Casing.learn(map(split_words, lines))
    inner = WordVocabulary.build([casing.lower(split_words(line)) for line in lines])
    vocabulary = RawVocabulary(inner, casing)
    for line in lines:
        assert vocabulary.decode(vocabulary.encode(line)) == line
    assert vocabulary.encode_lines(lines) == [vocabulary.encode(line) for line in lines]
    again = read_vocabulary(json.loads(json.dumps(vocabulary.to_json())))
    assert again == vocabulary
    assert again.encode("The dog sees") == vocabulary.encode("The dog sees")
    assert vocabulary.word_start() is None
    for damaged in ({"casing": []}, {"casing": {"a": 1}}, {"inner": {"kind": "raw"}}):
        with pytest.raises(ValueError, match="the saved vocabulary"):
            read_vocabulary(vocabulary.to_json() | damaged)


@pytest.mark.parametrize(
    ("text", "cased", "expected"),
    [
        ("wo ist mein buch ?", False, None),
        ("Wo ist mein Buch ?", False, "Wo"),
        ("Wo ist mein Buch ?", True, None),
        ("wo, fragt er", True, "wo,"),
        ("u.s. etc. 3.5 '' 10:30", False, None),
        (": a ! ?", False, None),
        ("&quot; ja &apos;s &quot;", False, None),
        ("er sagt &quot; ja; &quot;", False, "ja;"),
        ("", False, None),
    ],
)
def test_ordinary_text_is_recognised(text, cased, expected):
    assert untokenised(text, cased) == expected


def test_tokenised_corpora_are_not_raw():
    with pytest.raises(UsageError, match="raw is true and corpus is 'multi30k', which is tokenised text"):
        build(DataConfig, {"corpus": "multi30k", "raw": True})
