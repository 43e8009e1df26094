"""The paper's LB_n (equation bleu_n), by plain loops, and its form for a random length."""

import math

from tests.oracles.counting import clip_counts, cut


def window_probabilities(rows, gram):
    """q_i: the probability that the window starting at i is `gram`."""
    n = len(gram)
    return [math.prod(rows[i + k][gram[k]] for k in range(n)) for i in range(len(rows) - n + 1)]


def bound(rows, references, n):
    """LB_n = sum_g sum_i q_i min(1, c / (1 + sum_{l != i} q_l))."""
    total = 0.0
    for gram, c in clip_counts(references, n).items():
        q = window_probabilities(rows, gram)
        for i in range(len(q)):
            others = sum(q[j] for j in range(len(q)) if j != i)
            total += q[i] * min(1.0, c / (1 + others))
    return total


def bound_with_eos(rows, references, n, eos_id):
    """LB_n of the random-length hypothesis: each window is conditioned on being alive at its last position e.

    Given that, the rows up to e have no EOS (renormalised) and a later window still has to stay alive:
    sum_g sum_e sigma_e q'_e min(1, c / (1 + sum_{l<e} q'_l + sum_{l>e} q'_l sigma_l / sigma_e)).
    """
    alive = [1.0 - row[eos_id] for row in rows]
    sigma = [math.prod(alive[: e + 1]) for e in range(len(rows))]
    renormalised = [
        [0.0 if v == eos_id or a == 0 else probability / a for v, probability in enumerate(row)]
        for row, a in zip(rows, alive, strict=True)
    ]
    total = 0.0
    for gram, c in clip_counts([cut(reference, eos_id) for reference in references], n).items():
        q = window_probabilities(renormalised, gram)
        last = sigma[n - 1 :]  # survival at the last position of each window
        for i in range(len(q)):
            if last[i] > 0:
                later = sum(q[j] * last[j] for j in range(i + 1, len(q))) / last[i]
                total += last[i] * q[i] * min(1.0, c / (1 + sum(q[:i]) + later))
    return total
