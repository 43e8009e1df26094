"""Draws the first figure of the README: BLEU of the recommended recipe minus BLEU of cross-entropy.

    python docs/default_gains.py

writes docs/_static/default_gains.svg and default_gains-dark.svg from results/default.
"""

from drawing import picture, save, text
from effects import COLORS, HIGH, LOW, PLOT, mark, place, translation

NAMES, TOP, ROW, FOOT = 250, 44, 34, 40


def draw() -> str:
    found = translation.default_runs()
    bottom, parts = TOP + ROW * len(found), []
    for number, (search, color) in enumerate(zip(("greedy search", "beam 5"), COLORS, strict=True)):
        parts.append(f'<circle cx="{10 + 130 * number}" cy="14" r="5" fill="{color}"/>')
        parts.append(text(20 + 130 * number, 19, search))
    parts.append(
        text(NAMES + 1.6 * PLOT, 19, "test BLEU minus that of cross-entropy", 'text-anchor="end" opacity="0.8"')
    )
    for tick in range(int(LOW), int(HIGH) + 1):
        at, strong = NAMES + 1.6 * place(tick), 0.6 if tick == 0 else 0.15
        parts.append(f'<path d="M{at:g} {TOP}V{bottom}" stroke="currentColor" stroke-opacity="{strong}"/>')
        parts.append(text(at, bottom + 18, f"{tick:+d}" if tick else "0", 'text-anchor="middle" opacity="0.8"'))
    for number, (name, summary) in enumerate(found.items()):
        middle = TOP + ROW * (number + 0.5)
        shown = f"{translation.shown_name(name)}, {translation.number_of_seeds(summary)}"
        parts.append(text(NAMES - 14, middle + 5, shown, 'text-anchor="end"'))
        for search, color, shift in zip(summary["searches"], COLORS, (-6, 6), strict=False):
            pair = translation.difference(summary["scores"][search], "recommended")
            if pair is not None:
                parts += mark(NAMES, middle + shift, pair, color, 1.6)
    described = (
        "For each corpus and model, one dot for greedy search and one for beam search show the gain in test BLEU of "
        "the recommended recipe over cross-entropy, with a 95 % interval over seeds. The table gives the same numbers."
    )
    size = NAMES + 1.6 * PLOT + 20, bottom + FOOT
    return picture("effects", size, "Gain of the recommended recipe over cross-entropy", described, parts, font=14)


if __name__ == "__main__":
    save("default_gains", draw())
