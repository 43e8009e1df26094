"""ROUGE, GLEU and NIST by their definitions: n-grams in a Counter, one hypothesis at a time."""

import math
from collections import Counter

from tests.oracles.counting import ngrams


def rouge(hypothesis, reference, n, kind):
    """ROUGE-N with one reference."""
    ours, theirs = ngrams(hypothesis, n), ngrams(reference, n)
    matches, made, wanted = (sum(counts.values()) for counts in (ours & theirs, ours, theirs))
    below = {"recall": wanted, "precision": made, "f1": (made + wanted) / 2}[kind]
    return matches / below if below else 0.0


def common_subsequence(first, second):
    """The length of the longest common subsequence, by the table."""
    row = [0] * (len(second) + 1)
    for one in first:
        above, row = row, [0]
        for place, other in enumerate(second):
            row.append(above[place] + 1 if one == other else max(above[place + 1], row[-1]))
    return row[-1]


def rouge_l(hypothesis, reference, kind):
    """ROUGE-L with one reference."""
    made, wanted = len(hypothesis), len(reference)
    below = {"recall": wanted, "precision": made, "f1": (made + wanted) / 2}[kind]
    return common_subsequence(hypothesis, reference) / below if below else 0.0


def gleu_parts(hypothesis, reference, max_order=4):
    """Matches and denominator of GLEU with one reference."""
    pairs = [(ngrams(hypothesis, n), ngrams(reference, n)) for n in range(1, max_order + 1)]
    matches = sum(sum((ours & theirs).values()) for ours, theirs in pairs)
    return matches, max(sum(sum(counts.values()) for counts in side) for side in zip(*pairs, strict=True))


def gleu(hypothesis, reference, max_order=4):
    matches, below = gleu_parts(hypothesis, reference, max_order)
    return matches / below if below else 0.0


def information(references, max_order=5):
    """{n-gram: weight} of lists of tokens."""
    counts = Counter()
    for reference in references:
        for n in range(1, max_order + 1):
            counts.update(ngrams(reference, n))
    words = sum(map(len, references))
    return {gram: math.log2((counts[gram[:-1]] if gram[:-1] else words) / counts[gram]) for gram in counts}


def nist_parts(hypothesis, reference, weights, max_order=5):
    """Weighted matches and totals of each order."""
    found = []
    for n in range(1, max_order + 1):
        ours = ngrams(hypothesis, n)
        both = ours & ngrams(reference, n)
        found.append((sum(weights.get(gram, 0.0) * count for gram, count in both.items()), sum(ours.values())))
    return found


def nist_penalty(length, wanted):
    ratio = min(length / wanted, 1.0) if wanted else 1.0
    return 0.5 ** ((math.log(ratio) / math.log(1.5)) ** 2) if ratio > 0 else 0.0


def nist(hypothesis, reference, weights, max_order=5):
    parts = nist_parts(hypothesis, reference, weights, max_order)
    precision = sum(matches / total for matches, total in parts if total)
    return precision * nist_penalty(len(hypothesis), len(reference))
