"""Small cases, enumerated in full: exact matches, random length, words, the interval, and the bound on one-hot rows."""

import numpy as np
import torch

from bleugrad import bleu, expected_bleu
from tests.cases import FAMILIES, draw_case, one_hot_logits
from tests.oracles.counting import statistics
from tests.oracles.words import enumerate_words

KINDS = ("matches", "random length", "words", "words of random length", "one-hot rows")
TOLERANCE = 1e-9


def check(seed):
    rng = np.random.default_rng(seed)
    kind, family = KINDS[seed % len(KINDS)], str(rng.choice(FAMILIES))
    order, smoothing = int(rng.integers(1, 5)), float(rng.choice([0.0, 0.3, 1.0]))
    options = {"max_order": order, "smoothing": smoothing, "level": "sentence"}
    case = draw_case(rng, family, eos="random length" in kind, batch=2)
    if kind == "one-hot rows":
        wrong = _check_one_hot(rng, case, options)
    else:
        word_start = None
        tables = case.tables(order) if "words" not in kind else []
        if not tables:
            word_start = torch.from_numpy(rng.random(case.logits.shape[2]) < 0.6)
            tables = [
                enumerate_words(case.rows(b), case.references[b], word_start.tolist(), order, case.eos_id)
                for b in range(case.batch)
            ]
        wrong = _check_tables(
            expected_bleu(case.logits, case.references, word_start=word_start, **case.keywords, **options),
            tables,
            smoothing,
        )
    return wrong and f"{kind}, {family}, max_order={order}, smoothing={smoothing}: {wrong}"


def _check_tables(found, tables, smoothing):
    """What differs from full enumeration, or None."""
    expected = {
        "matches": [table.mean(table.matches) for table in tables],
        "totals": [table.mean(table.totals) for table in tables],
        "hypothesis_lengths": [table.mean(table.lengths) for table in tables],
    }
    for name, values in expected.items():
        if wrong := _difference(getattr(found, name), np.array(values)):
            return f"{name} {wrong}"
    truth = np.array([table.mean(table.bleu(smoothing=smoothing)) for table in tables])
    lower = np.zeros_like(truth) if found.lower is None else found.lower.numpy()
    upper = found.upper.numpy()
    if not ((lower - TOLERANCE <= truth) & (truth <= upper + TOLERANCE)).all():
        return f"E[BLEU] {truth} is outside of {lower} to {upper}"
    return None


def _check_one_hot(rng, case, options):
    """On one-hot rows, bound and exact expectation are the counts, and BLEU is that of the ids."""
    batch, steps, vocabulary = case.logits.shape
    tokens = rng.integers(0, vocabulary, (batch, steps))
    counted = [
        statistics(row.tolist(), references, options["max_order"])
        for row, references in zip(tokens, case.references, strict=True)
    ]
    matches = np.array([row[0] for row in counted])
    logits = one_hot_logits(tokens, vocabulary)
    value = bleu(torch.from_numpy(tokens), case.references, **options).value.numpy()
    for method in ("exact", "bound"):
        found = expected_bleu(logits, case.references, method=method, **options)
        if wrong := _difference(found.matches, matches):
            return f"matches of {method} {wrong}"
        if wrong := _difference(found.value, value):
            return f"value of {method} {wrong}"
    return None


def _difference(found, expected):
    found = found.numpy()
    error = np.abs(found - expected).max(initial=0)
    return None if error <= TOLERANCE else f"differ by {error:.3g}: {found.tolist()}, expected {expected.tolist()}"
