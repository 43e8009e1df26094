"""E[O_n] for sentences too long to enumerate: one automaton per n-gram, run over the independent rows.

The state is (longest suffix of what was read that is a prefix of the n-gram, occurrences so far, clipped).
It knows nothing of windows, renewals or overlaps, and costs T * n * c * n steps an n-gram.
"""

import numpy as np

from tests.oracles.counting import clip_counts, cut


def transitions(gram):
    """table[state][token] -> next state, tokens of the gram only (any other token leads to state 0)."""
    n = len(gram)
    table = [{} for _ in range(n + 1)]
    for state in range(n + 1):
        for token in set(gram):
            read = (*gram[:state], token)
            suffixes = [read[start:] for start in range(len(read) + 1)]
            table[state][token] = max(len(s) for s in suffixes if s == gram[: len(s)])
    return table


def expected_clipped_count(rows, gram, clip, eos_id=None):
    """E[min(occurrences of gram before the first EOS, clip)]."""
    table, n = transitions(gram), len(gram)
    tokens = sorted(set(gram))
    mass = np.zeros((n + 1, clip + 1))
    mass[0, 0] = 1.0
    ended = 0.0
    counts = np.arange(clip + 1)
    for row in rows:
        new = np.zeros_like(mass)
        other = 1.0 - sum(row[token] for token in tokens)
        if eos_id is not None:
            other -= row[eos_id]
            ended += row[eos_id] * (mass @ counts).sum()
        for state in range(n + 1):
            new[0] += mass[state] * other
            for token in tokens:
                target = table[state][token]
                moved = mass[state] * row[token]
                if target == n:
                    new[n, 1:] += moved[:-1]
                    new[n, -1] += moved[-1]
                else:
                    new[target] += moved
        mass = new
    return ended + (mass @ counts).sum()


def expected_matches(rows, references, n, eos_id=None):
    """E[O_n] exactly, any T."""
    rows = np.asarray(rows, dtype=np.float64)
    counts = clip_counts([cut(reference, eos_id) for reference in references], n)
    return sum(expected_clipped_count(rows, gram, clip, eos_id) for gram, clip in counts.items())
