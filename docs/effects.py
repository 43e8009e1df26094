"""Draws a figure of the results: BLEU of every objective minus BLEU of cross-entropy, corpus by corpus.

    python docs/effects.py

writes docs/_static/effects.svg and effects-dark.svg from results/.
"""

import sys
from pathlib import Path

from drawing import BLUE, ORANGE, picture, save, text

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import translation

LOW, HIGH = -2.0, 4.0
"""Range of the axes, BLEU; an interval that leaves it ends in an arrow."""
LABELS, PLOT, GAP = 120, 262, 24
HEAD, ROW, FOOT, TOP = 46, 27, 40, 36
COLORS = (BLUE, ORANGE)


def place(value: float) -> float:
    return PLOT * (value - LOW) / (HIGH - LOW)


def mark(x: float, y: float, pair: translation.Summary, color: str, scale: float = 1.0) -> list[str]:
    """One difference: a line for its interval and a dot, which is open if there is no interval."""
    center, half = 100 * pair["difference"], pair.get("smallest")
    fill = f'fill="{color}"'
    lines = []
    if half is None:
        fill = f'fill="none" stroke="{color}" stroke-width="2"'
    else:
        ends = [center - 100 * half, center + 100 * half]
        left, right = (x + scale * place(min(max(end, LOW), HIGH)) for end in ends)
        lines.append(f'<path d="M{left:.1f} {y}H{right:.1f}" stroke="{color}" stroke-width="2"/>')
        for end, at, out in ((ends[0] < LOW, left, -1), (ends[1] > HIGH, right, 1)):
            if end:
                lines.append(f'<path d="M{at:.1f} {y - 4}l{5 * out} 4l{-5 * out} 4z" fill="{color}"/>')
    return [*lines, f'<circle cx="{x + scale * place(center):.1f}" cy="{y}" r="4" {fill}/>']


def panel(x: float, y: float, name: str, summary: translation.Summary) -> list[str]:
    """One corpus: an axis, and for each objective one mark per search."""
    labels = {label: title for label, title in translation.objectives(summary).items() if label not in ("base", "ce")}
    start, top = x + LABELS, y + HEAD
    bottom = top + ROW * len(labels)
    lines = [
        text(x, y + 16, f"{name}, {translation.number_of_seeds(summary)}", 'font-weight="600"'),
        text(x, y + 34, translation.CORPORA.get(name, ""), 'opacity="0.8"'),
    ]
    for tick in range(int(LOW), int(HIGH) + 1):
        at, strong = start + place(tick), 0.6 if tick == 0 else 0.15
        lines.append(f'<path d="M{at:g} {top}V{bottom}" stroke="currentColor" stroke-opacity="{strong}"/>')
        lines.append(text(at, bottom + 16, f"{tick:+d}" if tick else "0", 'text-anchor="middle" opacity="0.8"'))
    for number, (label, title) in enumerate(labels.items()):
        middle = top + ROW * (number + 0.5)
        lines.append(text(start - 12, middle + 4, title, 'text-anchor="end"'))
        for search, color, shift in zip(summary["searches"], COLORS, (-5, 5), strict=False):
            pair = translation.difference(summary["scores"][search], label)
            if pair is not None:
                lines += mark(start, middle + shift, pair, color)
    return lines


def draw() -> str:
    found = translation.kept()
    width, parts, y = 2 * (LABELS + PLOT) + GAP, [], float(TOP)
    searches = next(iter(found.values()))["searches"]
    for number, (search, color) in enumerate(zip(searches, COLORS, strict=False)):
        name = f"{search} search" if search == "greedy" else search
        parts.append(f'<circle cx="{10 + 120 * number}" cy="14" r="5" fill="{color}"/>')
        parts.append(text(20 + 120 * number, 19, name))
    parts.append(text(width, 19, "test BLEU minus that of cross-entropy", 'text-anchor="end" opacity="0.8"'))
    runs = list(found.items())
    for pair in (runs[first : first + 2] for first in range(0, len(runs), 2)):
        for column, (name, summary) in enumerate(pair):
            parts += panel(column * (LABELS + PLOT + GAP), y, name, summary)
        y += HEAD + FOOT + ROW * max(len(summary["titles"]) - 2 for _, summary in pair)
    described = (
        "One panel per corpus. For each objective, one dot for greedy search and one for beam search show the gain in "
        "test BLEU over cross-entropy, with a 95 % interval over seeds. The tables give the same numbers."
    )
    return picture("effects", (width + 16, y), "Gain of each objective over cross-entropy", described, parts, font=13)


if __name__ == "__main__":
    save("effects", draw())
