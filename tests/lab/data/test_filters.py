"""Filters: pairs at a limit pass, and every dropped pair is counted for one reason."""

import pytest

from bleugrad.lab.data.corpus import Split, filter_split, reason_to_drop


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        ((5, 5), True),
        ((6, 5), False),
        ((5, 6), False),
        ((0, 5), False),
        ((5, 0), False),
        ((0, 0), False),
        ((2, 4), True),
        ((4, 2), True),
        ((2, 5), False),
        ((5, 2), False),
    ],
)
def test_the_limits_pass_and_what_exceeds_them_does_not(lengths, kept):
    assert (reason_to_drop(*lengths, max_length=5, max_ratio=2) is None) is kept


def test_zero_is_no_limit_but_empty_never_passes():
    assert reason_to_drop(1, 10_000, max_length=0, max_ratio=0) is None
    assert reason_to_drop(0, 1, max_length=0, max_ratio=0) is not None


def test_every_dropped_pair_is_counted_once():
    long = "word " * 10_000
    split = Split(["a b", "", "c", long, "d", "e"], [("x y",), ("x",), (" ",), ("x",), ("x x x x",), ("z",)])
    kept, dropped = filter_split(split, max_length=50, max_ratio=3)
    assert kept == Split(["a b", "e"], [("x y",), ("z",)])
    assert dropped == {"empty": 2, "too long": 1, "ratio": 1}
    assert sum(dropped.values()) + len(kept) == len(split)
    assert filter_split(kept, 50, 3)[0] == kept


def test_further_references_go_by_themselves_and_the_target_decides():
    split = Split(["a", "b"], [("x", "y " * 51, "z"), ("y " * 51, "x")])
    kept, dropped = filter_split(split, max_length=50, max_ratio=0)
    assert kept == Split(["a"], [("x", "z")])
    assert dropped["too long"] == 1
