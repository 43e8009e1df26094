"""BLEU by its definition: n-grams in a Counter."""

import math
from collections import Counter


def cut(tokens, eos_id):
    """The tokens before the first `eos_id`, all of them if there is none."""
    tokens = list(tokens)
    return tokens[: tokens.index(eos_id)] if eos_id in tokens else tokens


def ngrams(tokens, n):
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def clip_counts(references, n):
    """Highest count of each n-gram in any one reference."""
    counts = Counter()
    for reference in references:
        counts |= ngrams(reference, n)
    return counts


def closest_length(length, references):
    """Length of the reference nearest to `length`, ties to the shorter; empty references are absent."""
    lengths = [len(reference) for reference in references if len(reference) > 0] or [0]
    return min(lengths, key=lambda r: (abs(r - length), r))


def brevity_penalty(c, r):
    if c > r:
        return 1.0
    if c == 0:
        return 1.0 if r == 0 else 0.0
    return math.exp(1 - r / c)


def statistics(hypothesis, references, max_order):
    """(matches, totals, hypothesis length, closest reference length) of one sentence."""
    matches, totals = [], []
    for n in range(1, max_order + 1):
        counts = ngrams(hypothesis, n)
        matches.append(sum((counts & clip_counts(references, n)).values()))
        totals.append(sum(counts.values()))
    return matches, totals, len(hypothesis), closest_length(len(hypothesis), references)


def precisions(matches, totals, smoothing=0.0):
    pairs = zip(matches, totals, strict=True)
    return [(o + smoothing) / (m + smoothing) if m + smoothing > 0 else 0.0 for o, m in pairs]


def combine(matches, totals, penalty, weights=None, smoothing=0.0):
    """`penalty` times the weighted geometric mean of the precisions; orders of weight 0 are left out."""
    weights = weights or [1 / len(matches)] * len(matches)
    value = penalty
    for weight, precision in zip(weights, precisions(matches, totals, smoothing), strict=True):
        if weight > 0:
            value *= precision**weight
    return value


def sentence_bleu(hypothesis, references, max_order=4, weights=None, smoothing=0.0):
    matches, totals, c, r = statistics(hypothesis, references, max_order)
    return combine(matches, totals, brevity_penalty(c, r), weights, smoothing)


def corpus_bleu(hypotheses, references, max_order=4, weights=None, smoothing=0.0):
    """`references[b]` lists the references of sentence b."""
    rows = [statistics(h, r, max_order) for h, r in zip(hypotheses, references, strict=True)]
    matches = [sum(row[0][n] for row in rows) for n in range(max_order)]
    totals = [sum(row[1][n] for row in rows) for n in range(max_order)]
    penalty = brevity_penalty(sum(row[2] for row in rows), sum(row[3] for row in rows))
    return combine(matches, totals, penalty, weights, smoothing)
