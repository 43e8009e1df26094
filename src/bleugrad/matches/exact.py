"""Expected clipped matches, exactly: E[O_n] = sum over distinct reference n-grams g of E[min(count(g), c_g)].

With q_e the probability that the window ending at e is the n-gram g of m tokens, tail(e, d) that of its last d tokens
standing there, D the shifts at which g overlaps itself, and a_e the probability that token e does not end the
sequence::

    u^k_e = q_e N^k_{e-m} - sum_{d in D} tail(e, d) v^k_{e-d},        v^k_e = u^k_e - u^{k-1}_e
    N^k_e = a_e N^k_{e-1} - v^k_e,                                    N^1_{-1} = 1, all else 0 before the start

and E[min(count(g), c)] = sum_e sum_{k=1..c} u^k_e. ``backends/torch/renewal.py`` derives it and adds words.
"""

from typing import cast

from torch import Tensor

from bleugrad.backends import operations
from bleugrad.references.ngrams import Patterns


def exact_matches(
    unit_probs: Tensor, patterns: Patterns, alive: Tensor | None = None, opening: Tensor | None = None
) -> Tensor:
    """Expected new clipped matches completed at each position, (T, B, N). Exact.

    Their sum over T is E[O_n]. In words, each has still to be multiplied by the probability that the next token opens
    a word or the sequence ends.

    Args:
        unit_probs: (T, B, L), probability that the window ending at t is the unit (token or word) of column j; 0 where
            t is past the end.
        patterns: the distinct n-grams of each sentence.
        alive: (T, B), probability that token t does not end the sequence; None where the length is fixed. With it,
            ``unit_probs`` are those of the full rows, not renormalised.
        opening: (T, B), probability that token t opens a word; None where every token does.

    O(T B N L) time. Memory is one (T, B, L) gradient and a few working tensors of a block of n-grams. No logarithm or
    division occurs, so there is nothing to break.
    """
    inputs = (unit_probs, alive, opening, patterns.clips, patterns.overlaps, patterns.spans)
    return cast(Tensor, operations.exact_matches(*inputs))
