"""Vocabularies of words and subwords: fixed special ids, no text that is mapped to them, and JSON files."""

import json
import re
import sys

import pytest

from bleugrad.lab.data.bpe import BPEVocabulary
from bleugrad.lab.data.vocabulary import WordVocabulary, read_vocabulary
from bleugrad.lab.errors import FailureError
from bleugrad.lab.special_ids import BOS, EOS, PAD, SPECIAL, UNK

LINES = ["the lower cat", "the lowest cat is low", "the dog is slower than the cat", "größer als der hund"] * 5


def words():
    return WordVocabulary.build(LINES, min_count=2)


def subwords():
    return BPEVocabulary.build(LINES, size=60)


BOTH = pytest.mark.parametrize("make", [words, subwords])


@BOTH
def test_special_ids_are_the_same_everywhere(make):
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert tuple(make().tokens[:4]) == SPECIAL == ("<pad>", "<unk>", "<s>", "</s>")
    assert len(make()) == len(make().tokens) == len(set(make().tokens))


@BOTH
def test_known_text_comes_back(make):
    vocabulary = make()
    for line in LINES:
        ids = vocabulary.encode(line)
        assert min(ids) > EOS
        assert vocabulary.decode(ids) == line
    assert vocabulary.encode_lines(LINES) == [vocabulary.encode(line) for line in LINES]
    assert vocabulary.encode("") == vocabulary.encode(" \t ") == []
    assert vocabulary.encode("  the\t cat ") == vocabulary.encode("the cat")


@BOTH
def test_decoding_stops_at_the_end_and_leaves_out_padding_and_begin(make):
    vocabulary = make()
    ids = vocabulary.encode("the cat")
    assert vocabulary.decode([BOS, *ids, EOS, *ids]) == "the cat"
    assert vocabulary.decode([*ids, PAD, PAD]) == "the cat"
    assert vocabulary.decode([EOS]) == ""
    assert vocabulary.decode([*ids, UNK, *ids]) == "the cat <unk> the cat"
    with pytest.raises(ValueError, match=f"ids holds {len(vocabulary)}; expected ids from 0"):
        vocabulary.decode([len(vocabulary)])


@BOTH
def test_text_is_never_taken_for_padding_begin_or_end(make):
    vocabulary = make()
    for text in ("<pad>", "<s>", "</s>", "the </s> cat", "a<s>b", "</s></s>"):
        assert not {PAD, BOS, EOS} & set(vocabulary.encode(text))


def test_a_merge_that_spells_the_end_of_sentence_is_not_taken_for_it():
    vocabulary = BPEVocabulary.build(["a</s> b</s> c</s> </s>"] * 20, size=40)
    assert ("</s", ">") in vocabulary.merges
    assert vocabulary.encode("as</s>")[-1] == UNK
    assert vocabulary.encode_lines(["as</s>"])[0][-1] == UNK


@BOTH
def test_saved_as_json_and_read_again(make):
    vocabulary = make()
    again = read_vocabulary(json.loads(json.dumps(vocabulary.to_json())))
    assert again == vocabulary
    assert again.encode("the unseen cat is slow") == vocabulary.encode("the unseen cat is slow")
    assert make() == vocabulary
    assert vocabulary != WordVocabulary([*SPECIAL, "the"])
    assert vocabulary != "something else"


@pytest.mark.parametrize("saved", [[], {}, {"kind": "words"}, {"kind": "words", "tokens": [1]}, {"tokens": [*SPECIAL]}])
def test_what_is_no_vocabulary_is_refused(saved):
    with pytest.raises(ValueError, match="the saved vocabulary"):
        read_vocabulary(saved)


def test_a_saved_sentencepiece_model_is_refused():
    with pytest.raises(ValueError, match="SentencePiece models are no longer read"):
        read_vocabulary({"kind": "sentencepiece", "tokens": [*SPECIAL], "model": ""})


def test_tokens_must_begin_with_the_special_ones_and_differ():
    with pytest.raises(ValueError, match="tokens begins with"):
        WordVocabulary(["<s>", "<pad>", "<unk>", "</s>"])
    with pytest.raises(ValueError, match="tokens holds 'a' more than once"):
        WordVocabulary([*SPECIAL, "a", "b", "a"])


def test_words_by_frequency_then_alphabet_with_count_and_size():
    lines = ["b a c", "a b", "a d"]
    assert WordVocabulary.build(lines).tokens[4:] == ["a", "b", "c", "d"]
    assert WordVocabulary.build(lines, min_count=2).tokens[4:] == ["a", "b"]
    assert WordVocabulary.build(lines, size=7).tokens == [*SPECIAL, "a", "b", "c"]
    assert WordVocabulary.build(["<unk> a </s> <unk>"]).tokens[4:] == ["a"]
    assert WordVocabulary.build(lines, 2).encode("a b c <unk>") == [4, 5, UNK, UNK]
    assert words().word_start() is None


def test_a_list_may_hold_special_tokens_anywhere():
    vocabulary = WordVocabulary.from_list(["<pad>", "<s>", "</s>", "<unk>", ",", "the"])
    assert vocabulary.tokens == [*SPECIAL, ",", "the"]
    assert WordVocabulary.from_list(["the", "<unk>", ","], size=5).tokens == [*SPECIAL, "the"]
    for wrong in ("two words", "", "the\t7"):
        with pytest.raises(ValueError, match=re.escape(f"entry 2 of the list of words is {wrong!r}; expected one")):
            WordVocabulary.from_list(["the", wrong])


def test_subwords_know_unseen_words_of_seen_characters():
    vocabulary = subwords()
    assert vocabulary.decode(vocabulary.encode("slowest dogs")) == "slowest dogs"
    assert UNK in vocabulary.encode("żółw")
    assert len(vocabulary) <= 60
    assert vocabulary.tokens == subwords().tokens, "training again gives the same"


def test_word_starts_count_the_words():
    vocabulary = subwords()
    starts = vocabulary.word_start()
    assert starts[:4] == [True] * 4
    for line in LINES[:4]:
        assert sum(starts[index] for index in vocabulary.encode(line)) == len(line.split())


def test_word_starts_are_those_the_losses_read_from_the_tokens():
    from bleugrad.tokenizers import word_start_mask

    vocabulary = subwords()
    special = dict.fromkeys(SPECIAL, True)
    assert word_start_mask(vocabulary.tokens, special=special).tolist() == vocabulary.word_start()


def test_a_size_below_the_alphabet_is_refused():
    with pytest.raises(ValueError, match="size is 6; expected at least"):
        BPEVocabulary.build(LINES, size=6)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("bleugrad.lab.extras.find_spec", lambda name: None)
    with pytest.raises(FailureError, match=r"a BPE vocabulary needs tokenizers.*bleugrad\[text\]"):
        subwords()
    assert sys.modules["bleugrad.lab.data.vocabulary"], "words need no library"
    words()


def test_the_paper_s_list_of_words(data_dir):
    from bleugrad.lab.data.text import read_lines

    english = WordVocabulary.from_list(read_lines(data_dir / "iwslt14" / "vocab.en.gz"))
    assert len(english) == 22824
    plain = read_lines(data_dir / "iwslt14" / "test.en.gz")
    replaced = read_lines(data_dir / "iwslt14" / "test.unk.en.gz")
    assert english.encode_lines(plain) == english.encode_lines(replaced), "the paper's <unk> are ours"


def test_an_endless_word_is_cut_before_it_becomes_subwords():
    """Training on one word of n characters takes time n^2: 100,000 took 16 seconds."""
    bpe, word = subwords(), "la" * 50_000
    cut = " ".join(["the", word[:1000], "end"])
    with pytest.warns(UserWarning, match="a word has 100000 characters; only its first 1000 are cut into subwords"):
        assert bpe.encode(f"the {word} end") == bpe.encode(cut)
    with pytest.warns(UserWarning, match="only its first 1000"):
        assert bpe.encode_lines([f"the {word} end"]) == [bpe.encode(cut)]
    with pytest.warns(UserWarning, match="only its first 1000"):
        assert BPEVocabulary.build([*LINES, word], size=60) == BPEVocabulary.build([*LINES, word[:1000]], size=60)
    assert bpe.encode("a " * 5000), "many words are not one long word"
