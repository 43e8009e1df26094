"""The counter-examples of docs/mathematics.md, "Where the paper's statements fail", and what is true instead.

The truth is counted here over all token sequences, apart from the package and from the other oracles.
"""

from collections import Counter
from itertools import product
from math import exp, prod

import numpy as np
import pytest
import torch

import bleugrad

HALVES = torch.zeros(1, 3, 2, dtype=torch.float64)


def matched(tokens, reference, order):
    """Clipped matches of one order, by counting."""
    found, wanted = (
        Counter(tuple(ids[start : start + order]) for start in range(len(ids) - order + 1))
        for ids in (tokens, reference)
    )
    return sum(min(found[ngram], wanted[ngram]) for ngram in wanted)


def true_bleu(probs, reference, orders):
    """E[BLEU] without smoothing, over all sequences."""
    steps, vocabulary = probs.shape
    penalty = 1 if steps > len(reference) else exp(1 - len(reference) / steps)
    value = 0.0
    for tokens in product(range(vocabulary), repeat=steps):
        precisions = [matched(tokens, reference, order) / (steps - order + 1) for order in range(1, orders + 1)]
        value += prod(probs[range(steps), tokens]) * penalty * prod(precisions) ** (1 / orders)
    return value


def composite(probs, reference, orders):
    """The paper's product of bounds, without the -1."""
    logits = torch.from_numpy(np.log(probs))[None]
    return bleugrad.expected_bleu(logits, [reference], method="bound", max_order=orders, smoothing=0.0).value.item()


@pytest.mark.parametrize(
    ("order", "bound", "truth"), [(1, 1.5, 1.375), (2, 0.4, 0.375)], ids=["a word twice", "an overlap"]
)
def test_the_bound_is_above_the_expected_matches(order, bound, truth):
    counted = sum(matched(tokens, (0, 0), order) for tokens in product((0, 1), repeat=3)) / 8
    assert counted == truth
    for method, value in (("bound", bound), ("exact", truth)):
        matches = bleugrad.expected_bleu(HALVES, [[0, 0]], method=method, max_order=2).matches
        assert matches[0, order - 1].item() == pytest.approx(value, abs=1e-15)


def test_the_composite_with_one_subtracted_is_never_positive(rng):
    values = [composite(rng.dirichlet(np.ones(3), 4), rng.integers(0, 3, 4).tolist(), 2) for _ in range(50)]
    assert max(values) <= 1 + 1e-12
    assert max(values) > 0.3


def test_the_composite_lies_on_either_side_of_the_truth():
    fair = np.full((2, 2), 0.5)
    assert composite(fair, [0, 1], 1) == pytest.approx(2 / 3)
    assert true_bleu(fair, [0, 1], 1) == pytest.approx(3 / 4)
    assert composite(fair, [0, 1], 2) == pytest.approx((2 / 3 / 4) ** 0.5)
    assert true_bleu(fair, [0, 1], 2) == pytest.approx(1 / 4)
