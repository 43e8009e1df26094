"""Word BLEU by its definition: a sequence of tokens is split into words, and words are counted.

A token of `word_start` (a list of bools over the vocabulary) opens a word, and so does the first of a sequence. EOS
ends it and belongs to no word. A word is the tuple of its tokens.
"""

import math

import numpy as np

from tests.oracles.counting import brevity_penalty, clip_counts, closest_length, cut, ngrams
from tests.oracles.enumeration import PAD, Enumeration, enumerate_sequences


def split(tokens, word_start):
    words = []
    for position, token in enumerate(tokens):
        if position == 0 or word_start[token]:
            words.append(())
        words[-1] += (int(token),)
    return words


def reference_words(references, word_start, eos_id=None):
    return [split(cut(reference, eos_id), word_start) for reference in references]


def enumerate_words(rows, references, word_start, max_order=4, eos_id=None):
    """Statistics in words of every possible hypothesis."""
    references = reference_words(references, word_start, eos_id)
    sequences, probs = enumerate_sequences(rows, eos_id)
    clips = [clip_counts(references, n) for n in range(1, max_order + 1)]
    matches, lengths = [], []
    for sequence in sequences:
        words = split([token for token in sequence if token != PAD], word_start)
        matches.append([sum((ngrams(words, n) & clip).values()) for n, clip in enumerate(clips, start=1)])
        lengths.append(len(words))
    lengths = np.array(lengths)
    totals = np.maximum(lengths[:, None] - np.arange(max_order), 0)
    closest = np.array([closest_length(length, references) for length in lengths])
    penalties = np.array([brevity_penalty(c, r) for c, r in zip(lengths, closest, strict=True)])
    return Enumeration(probs, np.array(matches).reshape(-1, max_order), totals, lengths, closest, penalties)


def boundary_probabilities(rows, word_start, eos_id=None):
    """For each position: the probability that a word can end there, the next token opening one or ending all."""
    opening = [
        sum(p for v, p in enumerate(row) if v == eos_id or word_start[v])  # EOS, whatever word_start says of it
        for row in rows
    ]
    return [*opening[1:], 1.0][: len(rows)]


def window_probabilities(rows, gram, word_start):
    """q by the last position: its tokens stand there, and begin where a word can begin. 0 before it fits."""
    tokens = [token for word in gram for token in word]
    q = []
    for end in range(len(rows)):
        begin = end - len(tokens) + 1
        fits = begin == 0 or (begin > 0 and word_start[tokens[0]])
        q.append(math.prod(rows[begin + k][token] for k, token in enumerate(tokens)) if fits else 0.0)
    return q


def bound(rows, references, word_start, n, eos_id=None):
    """The paper's LB_n of word n-grams, every window times the probability that a word ends with it.

    With EOS each window at e is conditioned on being alive there, as for tokens: rows up to e have no EOS, and a later
    window has to stay alive.
    """
    ends = boundary_probabilities(rows, word_start, eos_id)
    sigma, alive = [1.0] * len(rows), [1.0] * len(rows)
    if eos_id is not None:
        alive = [1.0 - row[eos_id] for row in rows]
        sigma = [math.prod(alive[: e + 1]) for e in range(len(rows))]
    given = [
        [p / a if v != eos_id and a > 0 else 0.0 for v, p in enumerate(row)] for row, a in zip(rows, alive, strict=True)
    ]
    total = 0.0
    for gram, c in clip_counts(reference_words(references, word_start, eos_id), n).items():
        q = [a * b for a, b in zip(window_probabilities(given, gram, word_start), ends, strict=True)]
        for e in range(len(q)):
            if sigma[e] > 0:
                later = sum(q[l] * sigma[l] for l in range(e + 1, len(q))) / sigma[e]
                total += sigma[e] * q[e] * min(1.0, c / (1 + sum(q[:e]) + later))
    return total


def transitions(tokens, word_start):
    """table[state][token] -> next state: the longest prefix of `tokens` that ends here and began where a word can.

    Only a sequence's own beginning lets a continuation token begin a word; state -1 is that no prefix can begin.
    """
    size, anchored = len(tokens), not word_start[tokens[0]]
    table = [{} for _ in range(size + 1)]
    for state in range(size + 1):
        for token in set(tokens):
            read = [*tokens[:state], token]
            fitting = [k for k in range(len(read) + 1) if k <= size and read[len(read) - k :] == list(tokens[:k])]
            if anchored:
                fitting = [k for k in fitting if k == len(read)]
            table[state][token] = max(fitting, default=0)
    return table


def expected_clipped_count(rows, gram, word_start, clip, eos_id=None):
    """E[min(occurrences of the word n-gram, clip)] by an automaton: any length.

    A full match waits for the next token, which counts it by opening a word or ending the sequence.
    """
    tokens = tuple(token for word in gram for token in word)
    size, anchored = len(tokens), not word_start[tokens[0]]
    table = transitions(tokens, word_start)
    mass = {(0, 0): 1.0}
    ended = 0.0
    for position, row in enumerate(rows):
        new = {}

        def move(state, count, probability, new=new):
            new[state, count] = new.get((state, count), 0.0) + probability

        for (state, count), probability in mass.items():
            for token, p in enumerate(row):
                closes = state == size and (token == eos_id or word_start[token])
                then = min(clip, count + closes)
                if token == eos_id:
                    ended += probability * p * then
                elif state == -1 or (anchored and position > 0 and state == 0):
                    move(-1, then, probability * p)
                else:
                    move(table[state].get(token, -1 if anchored else 0), then, probability * p)
        mass = new
    return ended + sum(p * min(clip, count + (state == size)) for (state, count), p in mass.items())


def expected_matches(rows, references, word_start, n, eos_id=None):
    """E[O_n] in words, exactly, any length."""
    counts = clip_counts(reference_words(references, word_start, eos_id), n)
    return sum(expected_clipped_count(rows, gram, word_start, clip, eos_id) for gram, clip in counts.items())
