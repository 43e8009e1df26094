"""The table of the page "Which objective should I use?": cost, bias, variance and gain of each objective."""

import translation
from estimator_numbers import (
    BOUND,
    EIGHT,
    EXACT,
    FLAT,
    GREEDY,
    LEAVE_ONE_OUT,
    NO_BASELINE,
    SHARP,
    cases,
    cost,
    least_cosine,
)
from measured import markdown, span, table

LABELS = {EXACT: "exact", BOUND: "bound", EIGHT: "unbiased", LEAVE_ONE_OUT: "reinforce", FLAT: "mrt"}
"""The objective of the translation protocol that uses each estimator."""


def variance(name: str) -> str:
    return span([case["rows"][name]["per_sample"] for case in cases()])


def lengths(name: str) -> str:
    return f"length {span([case['rows'][name]['norm_ratio'] for case in cases()])}"


def direction(name: str) -> str:
    return f"cosine ≥ {least_cosine(name)}, {lengths(name)}"


def effect(name: str) -> str:
    """Gain over cross-entropy with greedy search, corpus by corpus."""
    label = LABELS.get(name)
    found = []
    for folder, summary in translation.kept().items():
        search = summary["searches"][0]
        if label in summary["titles"]:
            found.append(f"{folder} {translation.against(summary['scores'][search], label)}")
    return "; ".join(found)


@table
def objectives() -> str:
    sampled = {
        "unbiased, 8 samples": (EIGHT, "none", variance(EIGHT)),
        "REINFORCE, leave-one-out, 8 samples": (LEAVE_ONE_OUT, "none", variance(LEAVE_ONE_OUT)),
        "REINFORCE, greedy baseline": (GREEDY, "none", variance(GREEDY)),
        "REINFORCE, no baseline": (NO_BASELINE, "none", variance(NO_BASELINE)),
        "minimum risk, alpha 0.005, 8 samples": (FLAT, lengths(FLAT), variance(FLAT)),
        "minimum risk, alpha 1, 8 samples": (SHARP, "direction is wrong for confident rows", "not comparable"),
    }
    rows = [
        ["cross-entropy", "1", "not an estimate of E[BLEU]", "none", ""],
        ["exact", cost(EXACT), direction(EXACT), "none", effect(EXACT)],
        ["bound", cost(BOUND), direction(BOUND), "none", effect(BOUND)],
        *([title, cost(name), bias, noise, effect(name)] for title, (name, bias, noise) in sampled.items()),
    ]
    header = ["objective", "time / cross-entropy", "bias of the gradient", "relative variance per sample", "gain, BLEU"]
    if not translation.kept():
        header, rows = header[:-1], [row[:-1] for row in rows]
    return markdown(header, rows)
