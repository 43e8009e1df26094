"""Expectations by enumerating every token sequence of a (T, V) table of independent rows (V <= 4, T <= 6)."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from tests.oracles.counting import brevity_penalty, clip_counts, closest_length, cut

PAD = -1


def enumerate_sequences(rows, eos_id=None):
    """(sequences, probabilities): sequences (S, T) are cut before the first EOS and filled up with PAD.

    Sequences that the cut makes equal are merged into one, their probabilities added.
    """
    rows = np.asarray(rows, dtype=np.float64)
    steps, vocabulary = rows.shape
    everything = list(product(range(vocabulary), repeat=steps))
    sequences = np.array(everything, dtype=np.int64).reshape(len(everything), steps)
    probs = rows[np.arange(steps), sequences].prod(axis=1)
    if eos_id is None or steps == 0:
        return sequences, probs
    ended = np.logical_or.accumulate(sequences == eos_id, axis=1)
    sequences, inverse = np.unique(np.where(ended, PAD, sequences), axis=0, return_inverse=True)
    return sequences, np.bincount(inverse.ravel(), weights=probs)


def count_occurrences(sequences, gram):
    """How often `gram` occurs in each sequence, overlaps included."""
    n, steps = len(gram), sequences.shape[1]
    counts = np.zeros(len(sequences), dtype=np.int64)
    for start in range(steps - n + 1):
        counts += (sequences[:, start : start + n] == gram).all(axis=1)
    return counts


@dataclass
class Enumeration:
    """BLEU statistics of every possible hypothesis, with its probability."""

    probs: np.ndarray  # (S,)
    matches: np.ndarray  # (S, N)
    totals: np.ndarray  # (S, N)
    lengths: np.ndarray  # (S,)
    reference_lengths: np.ndarray  # (S,)
    penalties: np.ndarray  # (S,)

    def mean(self, values):
        return self.probs @ values

    def bleu(self, weights=None, smoothing=0.0):
        """(S,) sentence BLEU of every hypothesis."""
        orders = self.matches.shape[1]
        value = self.penalties.astype(np.float64)
        for n, weight in enumerate(weights or [1 / orders] * orders):
            if weight > 0:
                denominator = self.totals[:, n] + smoothing
                precision = (self.matches[:, n] + smoothing) / np.where(denominator > 0, denominator, 1)
                value = value * precision**weight
        return value

    def by_length(self):
        """Yields (probability, Enumeration given that length) for every possible length."""
        for length in np.unique(self.lengths):
            chosen = self.lengths == length
            mass = self.probs[chosen].sum()
            if mass > 0:
                columns = (self.matches, self.totals, self.lengths, self.reference_lengths, self.penalties)
                yield mass, Enumeration(self.probs[chosen] / mass, *(column[chosen] for column in columns))


def enumerate_statistics(rows, references, max_order=4, eos_id=None):
    """References are cut at their first EOS, like the hypotheses."""
    references = [cut(reference, eos_id) for reference in references]
    sequences, probs = enumerate_sequences(rows, eos_id)
    lengths = (sequences != PAD).sum(axis=1)
    matches = np.zeros((len(sequences), max_order), dtype=np.int64)
    for n in range(1, max_order + 1):
        for gram, count in clip_counts(references, n).items():
            matches[:, n - 1] += np.minimum(count_occurrences(sequences, gram), count)
    totals = np.maximum(lengths[:, None] - np.arange(max_order), 0)
    reference_lengths = np.array([closest_length(length, references) for length in lengths])
    penalties = np.array([brevity_penalty(c, r) for c, r in zip(lengths, reference_lengths, strict=True)])
    return Enumeration(probs, matches, totals, lengths, reference_lengths, penalties)


def pooled_brevity_penalty(tables):
    """E[BP(summed lengths, summed closest reference lengths)] of independent sentences (Enumerations)."""
    outcomes = {(0, 0): 1.0}
    for table in tables:
        summed = {}
        for (c, r), mass in outcomes.items():
            for probability, given in table.by_length():
                key = (c + given.lengths[0], r + given.reference_lengths[0])
                summed[key] = summed.get(key, 0.0) + mass * probability
        outcomes = summed
    return sum(mass * brevity_penalty(c, r) for (c, r), mass in outcomes.items())
