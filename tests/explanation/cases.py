"""Sentences to explain: small enough to enumerate, and one to look at."""

import numpy as np
import torch

from bleugrad.explanation.explain import explain

HOSTILE = "</script><script>document.title='owned'</script>"
IMAGE = '<img src=x onerror="document.title=1">'
WORDS = ["the", "cat", "sat", "on", "mat", "dog", ".", HOSTILE, IMAGE, "</s>"]
END = 9
REFERENCE = [0, 1, 2, 3, 0, 4, 7, 8, 6]


def random_rows(rng, steps, vocabulary):
    """Logits and their softmax, the latter by numpy."""
    logits = rng.normal(size=(steps, vocabulary))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return torch.tensor(logits), probs


def checkpoint(share, **options):
    """An explanation of a sentence with repeated and hostile tokens; ``share`` 0 is random, 1 nearly the reference."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(len(REFERENCE), len(WORDS), generator=generator, dtype=torch.float64)
    goal = 5 * torch.nn.functional.one_hot(torch.tensor(REFERENCE), len(WORDS)).double()
    return explain((1 - share) * logits + share * goal, REFERENCE, vocabulary=WORDS, samples=200, **options)
