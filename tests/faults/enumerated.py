"""Small cases, enumerated in full: matches, score and interval, in tokens and words, of fixed and random length.

Also the bound against its definition, and both methods on one-hot rows, where the statistics are plain counts.
"""

import numpy as np
import torch

from bleugrad import Projection, bleu, expected_bleu
from tests.cases import FAMILIES, draw_case, one_hot_logits
from tests.oracles import bound as bounds
from tests.oracles import words as in_words
from tests.oracles.counting import statistics

SECONDS = 60
KINDS = ("matches", "random length", "words", "words of random length", "bound", "one-hot rows")
TOLERANCE = 1e-9


def prepare(folder):
    """There is nothing to prepare."""
    return check


def check(seed):
    rng = np.random.default_rng(seed)
    kind, family = KINDS[seed % len(KINDS)], str(rng.choice(FAMILIES))
    order, smoothing = int(rng.integers(1, 5)), float(rng.choice([0.0, 0.3, 1.0]))
    options = {"max_order": order, "smoothing": smoothing, "level": "sentence"}
    eos = "random length" in kind or (kind == "bound" and rng.random() < 0.5)
    case = draw_case(rng, family, eos=eos, batch=2)
    if kind == "one-hot rows":
        wrong = _check_one_hot(rng, case, options)
    else:
        word_start = None
        if "words" in kind or (kind == "bound" and rng.random() < 0.5):
            word_start = torch.from_numpy(rng.random(case.logits.shape[2]) < 0.6)
        output = case.logits
        if rng.random() < 0.3:
            output = Projection(output, torch.eye(output.shape[2], dtype=output.dtype))
        method = "bound" if kind == "bound" else "exact"
        found = expected_bleu(output, case.references, method=method, word_start=word_start, **case.keywords, **options)
        tables = _tables(case, word_start, order)
        matches = None
        if kind == "bound":
            matches = [[_bound(case, b, word_start, n + 1) for n in range(order)] for b in range(case.batch)]
        wrong = _check_tables(found, tables, smoothing, matches)
    return wrong and f"{kind}, {family}, max_order={order}, smoothing={smoothing}: {wrong}"


def _tables(case, word_start, order):
    """Full enumeration of each sentence, in tokens or words."""
    if word_start is None:
        return case.tables(order)
    starts = word_start.tolist()
    return [
        in_words.enumerate_words(case.rows(b), case.references[b], starts, order, case.eos_id)
        for b in range(case.batch)
    ]


def _bound(case, b, word_start, n):
    """The paper's bound of the matches of order n, by its definition."""
    rows, references = case.rows(b), case.references[b]
    if word_start is not None:
        return in_words.bound(rows, references, word_start.tolist(), n, case.eos_id)
    if case.eos_id is not None:
        return bounds.bound_with_eos(rows, references, n, case.eos_id)
    return bounds.bound(rows, references, n)


def _check_tables(found, tables, smoothing, matches=None):
    """What differs from full enumeration, or None; ``matches`` replace the expected matches of the tables."""
    means = {
        "matches": np.array(matches or [table.mean(table.matches) for table in tables]),
        "totals": np.array([table.mean(table.totals) for table in tables]),
        "hypothesis_lengths": np.array([table.mean(table.lengths) for table in tables]),
        "reference_lengths": np.array([table.mean(table.reference_lengths) for table in tables]),
        "brevity_penalty": np.array([table.mean(table.penalties) for table in tables]),
    }
    possible = means["totals"] + smoothing
    precisions = (means["matches"] + smoothing) / np.where(possible > 0, possible, 1)
    means["value"] = means["brevity_penalty"] * (precisions ** (1 / precisions.shape[1])).prod(1)
    for name, values in means.items():
        if wrong := _difference(getattr(found, name), values):
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
    return None if error <= TOLERANCE else f"differs by {error:.3g}: {found.tolist()}, expected {expected.tolist()}"
