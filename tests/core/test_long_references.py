"""Long references: no (R, R) table may be built. Peak memory is measured in a child process."""

import json
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
    """T = 6 uniform rows: clips of up to two thousand never bind over two words, so E[O_n] = sum of Q."""
    answer, growth = run_child(f"""
logits = torch.zeros(BATCH, 6, {vocabulary}, requires_grad=True)
result = bleugrad.expected_bleu(logits, draw({vocabulary}, BATCH, LENGTH))
result.value.backward()
assert logits.grad.isfinite().all()
answer = result.matches.tolist()
""")
    if vocabulary == 2:
        np.testing.assert_allclose(answer, [[6, 5, 4, 3]] * BATCH, rtol=1e-5)
    assert growth < LIMIT
