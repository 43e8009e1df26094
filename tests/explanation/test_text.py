"""The text fits the width of the terminal, has the numbers of the explanation, and no control characters."""

import re

import pytest

from bleugrad.explanation.explain import explain
from tests.explanation.cases import END, checkpoint, random_rows


@pytest.mark.parametrize("width", [56, 72, 100])
def test_no_line_is_wider_than_the_terminal(width):
    text = checkpoint(0.6, eos_id=END).text(width)
    assert max(map(len, text.splitlines())) <= width


def test_wide_references_are_shown_in_parts(rng):
    logits, _ = random_rows(rng, 6, 50)
    text = explain(logits, list(range(40)), samples=0).text(60)
    assert max(map(len, text.splitlines())) <= 60
    shades = [line for line in text.splitlines() if re.match(r"  \d \S+ +[·░▒▓█]+$", line)]
    assert sum(len(line.split()[-1]) for line in shades) == 2 * 6 * 40


def test_the_shade_follows_the_probability(rng):
    logits, _ = random_rows(rng, 2, 3)
    logits = 0 * logits
    logits[0, 1] = 10
    lines = explain(logits, [0, 1], samples=0).text().splitlines()
    assert [line.split()[-1] for line in lines if re.match("  [12] . [·░▒▓█]", line)] == ["··██", "▒▒▒▒"]


def test_the_numbers_are_those_of_the_explanation():
    seen = checkpoint(0.6)
    text = seen.text(100)
    for number in (seen.lower, seen.upper, seen.sampled.mean, seen.value, seen.bound_value, seen.argmax_value):
        assert f"{100 * number:.2f}" in text
    (the,) = (ngram for ngram in seen.orders[0].ngrams if ngram.text == ("the",))
    assert the.above
    assert re.search(rf"the x2 +{the.exact:.4f} +▲{the.bound:.4f}", text)
    for order in seen.orders:
        assert re.search(rf"  {order.number}-grams +{order.exact:.4f} +▲?{order.bound:.4f} +{order.total:.4f}", text)
    for norm in seen.gradient_norm.tolist():
        assert f"{norm:.2e}" in text


def test_what_is_left_out_is_summed(monkeypatch):
    monkeypatch.setattr("bleugrad.explanation.text.LISTED", 2)
    seen = checkpoint(0.6)
    order = seen.orders[0]
    largest = sorted(order.ngrams, key=lambda ngram: -ngram.exact)[2:]
    exact, bound = (sum(getattr(ngram, name) for ngram in largest) for name in ("exact", "bound"))
    assert re.search(rf"6 more +{exact:.4f} +{bound:.4f}", seen.text())


def test_control_characters_do_not_reach_the_terminal(rng):
    logits, _ = random_rows(rng, 2, 2)
    text = explain(logits, [0, 1], vocabulary=["\x1b[2J", "a\rb\n"], samples=0).text()
    assert set(text) & set(map(chr, range(32))) == {"\n"}
    assert r"\x1b[2J" in text


def test_characters_two_columns_wide_are_counted_so(rng):
    logits, _ = random_rows(rng, 2, 2)
    logits[0, 0], logits[1, 1] = 9, 9
    lines = explain(logits, [0, 1], vocabulary=["猫猫", "abcd"], samples=0).text().splitlines()
    assert "  1 猫猫 ██··" in lines
    assert "  2 abcd ··██" in lines


def test_a_print_is_the_text():
    seen = checkpoint(0.5)
    assert str(seen) == seen.text(80)
    assert repr(seen) == f"Explanation(9 positions, BLEU-4 with smoothing 1 = {seen.value:.4f})"
