"""The built-in corpus: the same text in every release, disjoint splits, and smaller splits of the same sentences."""

import bz2
import hashlib

import pytest

from bleugrad.lab.data.builtin import FILE, LARGEST, builtin_splits


@pytest.fixture(scope="module")
def splits():
    return builtin_splits(20000, 500, 500)


def digest(content):
    return hashlib.sha256(content).hexdigest()


def test_the_text_never_changes(splits):
    text = bz2.decompress(FILE.read_bytes())
    assert digest(text) == "e9e1d74167adb79efd37809ba8d8477994025f3e5f586ccded24387bcdea9672"
    # results/ were made with these sentences
    pairs = zip(splits[0].sources[:100], splits[0].references[:100], strict=True)
    first = "\n".join("\t".join((german, *references)) for german, references in pairs)
    assert digest(first.encode()) == "d753d585280c81712d93c1dfaa9f63fb6f6d324e33a02cf92fdf5281bfdd3b16"


@pytest.mark.parametrize("sizes", [(20000, 500, 500), tuple(LARGEST.values()), (20000, 1, 1), (1, 1000, 1)])
def test_splits_have_their_sizes_and_share_no_sentence(sizes):
    splits = builtin_splits(*sizes)
    assert tuple(map(len, splits)) == sizes
    train, valid, test = (set(split.sources) for split in splits)
    assert (len(valid), len(test)) == sizes[1:]
    assert not train & valid
    assert not train & test
    assert not valid & test


def test_only_sentences_of_the_other_splits_are_left_out(splits):
    block = bz2.decompress(FILE.read_bytes()).decode().split("\n\n")[2]
    every = [line.split("\t")[0] for line in block.splitlines()]
    held_out = {*splits[1].sources, *splits[2].sources}
    assert splits[0].sources == [german for german in every if german not in held_out][:20000]
    assert held_out & set(every)


def test_smaller_splits_are_the_beginning_of_larger_ones(splits):
    train, valid, test = builtin_splits(300, 500, 500)
    assert (train.sources, train.references) == (splits[0].sources[:300], splits[0].references[:300])
    assert (valid, test) == splits[1:]
    assert builtin_splits(1, 20, 500)[1].references == valid.references[:20]
    assert builtin_splits(1, 1, 30)[2].references == test.references[:30]
