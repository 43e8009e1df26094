"""Long references: no (R, R) table may be built. Peak memory is measured in a child process."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.oracles import counting

BATCH, LENGTH, VOCABULARY = 8, 4096, 1000
LIMIT = 400  # MB above what the imports and a first small call take; one (B, R, R) int64 table has 1,070 MB

PREAMBLE = f"""
import json, resource
import numpy as np, torch, bleugrad

torch.set_num_threads(1)

def peak():
    # VmHWM belongs to this process alone; ru_maxrss starts at the parent's size after exec
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def draw(vocabulary, *shape):
    return torch.from_numpy(np.random.default_rng(7).integers(0, vocabulary, size=shape))

bleugrad.bleu(draw(5, 2, 8), draw(5, 2, 8))
bleugrad.expected_bleu(torch.randn(2, 6, 5, requires_grad=True), draw(5, 2, 8)).value.backward()
BATCH, LENGTH, VOCABULARY = {BATCH}, {LENGTH}, {VOCABULARY}
before = peak()
"""


def run_child(body):
    """Runs PREAMBLE and `body`, which sets `answer`; returns (answer, growth of the peak in MB)."""
    script = PREAMBLE + body + "\nprint(json.dumps([answer, peak() - before]))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("vocabulary", [VOCABULARY, 2])
def test_bleu_of_four_thousand_words(vocabulary):
    answer, growth = run_child(f"""
pairs = draw({vocabulary}, 2, BATCH, LENGTH)
result = bleugrad.bleu(pairs[0], pairs[1], max_order=4)
answer = result.matches.tolist()
""")
    pairs = np.random.default_rng(7).integers(0, vocabulary, size=(2, BATCH, LENGTH)).tolist()
    assert answer == [counting.statistics(h, [r], 4)[0] for h, r in zip(*pairs, strict=True)]
    assert growth < LIMIT


@pytest.mark.parametrize("vocabulary", [VOCABULARY, 2])
def test_statistics_of_a_long_reference_for_a_short_hypothesis(vocabulary):
    """T = 6 uniform rows: the count of a word is binomial, and longer n-grams hardly ever occur twice.

    Over two words clips never bind: every n-gram matches, whatever the rows are.
    """
    answer, growth = run_child(f"""
logits = torch.zeros(BATCH, 6, {vocabulary}, requires_grad=True)
result = bleugrad.expected_bleu(logits, draw({vocabulary}, BATCH, LENGTH))
result.matches.sum().backward()  # the brevity penalty of such a value is 0
answer = [result.matches.tolist(), logits.grad.abs().max().item(), logits.grad.sum(-1).abs().max().item()]
""")
    matches, largest, shift = answer
    references = np.random.default_rng(7).integers(0, vocabulary, size=(BATCH, LENGTH)).tolist()
    np.testing.assert_allclose(matches, [uniform_matches(r, vocabulary) for r in references], rtol=2e-5)
    assert shift < 1e-5  # of all logits of a row
    assert largest < 1e-5 if vocabulary == 2 else 1e-4 < largest < 2e-3  # of words that the reference lacks: 1 / V
    assert growth < LIMIT


def uniform_matches(reference, vocabulary, steps=6):
    """E[O_n] of uniform rows: from binomial counts for words, from expected counts for longer n-grams."""
    if vocabulary == 2:
        return [steps - n for n in range(4)]
    share = 1 / vocabulary
    at_least = np.cumsum([math.comb(steps, k) * share**k * (1 - share) ** (steps - k) for k in range(steps, 0, -1)])[
        ::-1
    ]
    words = sum(at_least[:clip].sum() for clip in counting.clip_counts([reference], 1).values())
    return [words, *((steps - n + 1) * len(counting.clip_counts([reference], n)) * share**n for n in (2, 3, 4))]
