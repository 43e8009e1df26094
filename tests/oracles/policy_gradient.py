"""Gradients of expectations over all token sequences of a (T, V) table of independent rows (V <= 4, T <= 4).

For independent rows, the gradient of E[f(x)] in the logits is p[t, v] (E[f | x_t = v] - E[f]): no log-probabilities, so
nothing is shared with estimators that differentiate them.
"""

from itertools import product

import numpy as np

from tests.oracles.counting import cut, sentence_bleu


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def all_sequences(steps, vocabulary):
    return list(product(range(vocabulary), repeat=steps))


def probability(rows, sequence):
    return float(np.prod([rows[t][v] for t, v in enumerate(sequence)]))


def expectation_and_gradient(rows, function):
    """E[function(sequence)], and its gradient (T, V) in the logits of the rows."""
    steps, vocabulary = rows.shape
    mean = 0.0
    joint = np.zeros((steps, vocabulary))  # E[f; x_t = v]
    for sequence in all_sequences(steps, vocabulary):
        mass = probability(rows, sequence) * function(sequence)
        mean += mass
        for t, v in enumerate(sequence):
            joint[t, v] += mass
    return mean, joint - rows * mean


def bleu_function(references, eos_id=None, **options):
    """BLEU of a sequence cut before its first EOS."""
    references = [cut(reference, eos_id) for reference in references]
    return lambda sequence: sentence_bleu(cut(sequence, eos_id), references, **options)


def score_function(rows, sequence, eos_id=None):
    """The gradient (T, V) of the log-probability of what is cut out by EOS: its tokens, and the EOS itself."""
    gradient = np.zeros(rows.shape)
    for t, v in enumerate(sequence):
        gradient[t] -= rows[t]
        gradient[t, v] += 1
        if v == eos_id:
            break
    return gradient
