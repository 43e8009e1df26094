"""Draws test BLEU of one-pass models after more likelihood training and after exact expected BLEU.

    python docs/one_pass_gains.py

writes docs/_static/one_pass_gains.svg and one_pass_gains-dark.svg from results/one_pass.
"""

import sys
from pathlib import Path

from drawing import BLUE, ORANGE, picture, save, text

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import one_pass_numbers
import translation

LABELS, PLOT, ROW, TOP, FOOT = 330, 460, 34, 36, 44
LOW, HIGH, STEP = 0, 80, 20
"""Range of the axis and distance of its ticks, BLEU."""
MARKS = {"ce": (ORANGE, "more likelihood"), "exact": (BLUE, "exact expected BLEU")}


def place(value: float) -> float:
    return LABELS + PLOT * (value - LOW) / (HIGH - LOW)


def row(y: float, name: str, summary: translation.Summary) -> list[str]:
    """One corpus and kind: a dot per objective with its standard deviation, joined by a line."""
    systems = summary["scores"][one_pass_numbers.SEARCH]["systems"]
    found = {label: systems[label] for label in MARKS}
    ends = [place(100 * system["mean"]) for system in found.values()]
    lines = [
        text(LABELS - 14, y + 5, name, 'text-anchor="end"'),
        f'<path d="M{ends[0]:.1f} {y}H{ends[1]:.1f}" stroke="currentColor" stroke-opacity="0.35" stroke-width="2"/>',
    ]
    right = max(ends)
    for (label, system), at in zip(found.items(), ends, strict=True):
        color = MARKS[label][0]
        if system["std"] is not None:
            half = place(100 * system["std"]) - place(0)
            right = max(right, at + half)
            lines.append(f'<path d="M{at - half:.1f} {y}h{2 * half:.1f}" stroke="{color}" stroke-width="5"/>')
        lines.append(f'<circle cx="{at:.1f}" cy="{y}" r="6" fill="{color}"/>')
    gain = 100 * (found["exact"]["mean"] - found["ce"]["mean"])
    return [*lines, text(right + 14, y + 5, f"{gain:+.1f}", 'font-weight="600"')]


def draw() -> str:
    runs = {names: one for names, one in one_pass_numbers.runs().items() if "ce" in one["runs"]}
    bottom, parts = TOP + ROW * len(runs), []
    for number, (color, name) in enumerate(MARKS.values()):
        parts.append(f'<circle cx="{LABELS + 10 + 170 * number}" cy="14" r="6" fill="{color}"/>')
        parts.append(text(LABELS + 22 + 170 * number, 19, name))
    for tick in range(LOW, HIGH + 1, STEP):
        at = place(tick)
        parts.append(f'<path d="M{at:g} {TOP}V{bottom}" stroke="currentColor" stroke-opacity="0.15"/>')
        parts.append(text(at, bottom + 18, str(tick), 'text-anchor="middle" opacity="0.8"'))
    parts.append(text(LABELS + PLOT, bottom + 38, "test BLEU", 'text-anchor="end" opacity="0.8"'))
    for number, ((corpus, kind), summary) in enumerate(runs.items()):
        corpus_name = one_pass_numbers.CORPORA[corpus].replace("`", "")
        name = f"{corpus_name}, {kind}, {translation.number_of_seeds(summary)}"
        parts += row(TOP + ROW * (number + 0.5), name, summary)
    described = (
        "One row per corpus and kind of model. Two dots show test BLEU after more likelihood training and after the "
        "exact loss, from the same weights and with the same number of epochs. The table gives the same numbers."
    )
    title = "Test BLEU of one-pass models before and after expected BLEU"
    return picture("one-pass-gains", (LABELS + PLOT + 40, bottom + FOOT), title, described, parts)


if __name__ == "__main__":
    save("one_pass_gains", draw())
