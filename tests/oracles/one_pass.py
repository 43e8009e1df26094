"""Every output of small CTC and graph models with its probability, and its statistics by counting."""

from collections import defaultdict
from itertools import groupby, pairwise, product

import numpy as np

from tests.oracles.counting import brevity_penalty, clip_counts, ngrams, statistics
from tests.oracles.enumeration import Enumeration


def merge(frames, blank):
    """What is left after repeated symbols are merged and blanks removed."""
    return tuple(symbol for symbol, _ in groupby(frames) if symbol != blank)


def frame_outputs(rows, blank):
    """{output: probability} of independent frames (T, V)."""
    steps, vocabulary = rows.shape
    found = defaultdict(float)
    for frames in product(range(vocabulary), repeat=steps):
        found[merge(frames, blank)] += np.prod([rows[t, v] for t, v in enumerate(frames)])
    return found


def paths(steps):
    """All increasing sequences of vertices from 0 to steps - 1."""
    inner = range(1, steps - 1)
    for visited in product([False, True], repeat=len(inner)):
        middle = [u for u, chosen in zip(inner, visited, strict=True) if chosen]
        yield [0] if steps == 1 else [0, *middle, steps - 1]


def path_outputs(rows, transitions):
    """{output: probability} of random paths over vertices (T, V) with transition probabilities (T, T)."""
    steps, vocabulary = rows.shape
    found = defaultdict(float)
    for path in paths(steps) if steps else [[]]:
        walked = np.prod([transitions[w, u] for w, u in pairwise(path)])
        for tokens in product(range(vocabulary), repeat=len(path)):
            found[tokens] += walked * np.prod([rows[u, v] for u, v in zip(path, tokens, strict=True)])
    return found


def tabulate(outputs, references, max_order=4):
    """The statistics of each output."""
    rows = [statistics(list(output), references, max_order) for output in outputs]
    matches, totals, lengths, closest = (np.array(column) for column in zip(*rows, strict=True))
    penalties = np.array([brevity_penalty(c, r) for c, r in zip(lengths, closest, strict=True)])
    return Enumeration(np.array(list(outputs.values())), matches, totals, lengths, closest, penalties)


def clipped_mean(outputs, references, max_order=4):
    """sum_g min(E[count(g)], c_g) of each order."""
    found = []
    for n in range(1, max_order + 1):
        expected = [
            min(sum(probability * ngrams(list(output), n)[gram] for output, probability in outputs.items()), clip)
            for gram, clip in clip_counts(references, n).items()
        ]
        found.append(sum(expected))
    return np.array(found)
