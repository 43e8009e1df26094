"""Draws the figure of the trainers' page: the default of BLEULoss minus cross-entropy, by the quality of the model.

    python docs/qualities.py

writes docs/_static/qualities.svg and qualities-dark.svg from results/recipe.
"""

import sys
from pathlib import Path
from statistics import fmean

from drawing import BLUE, ORANGE, picture, save, text

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from recipe_report import NAMES, difference, groups, read_runs

RESULTS = Path(__file__).parents[1] / "results" / "recipe"
GREEN = "#3a9d5d"
COLORS = {"t5": BLUE, "marian": ORANGE, "gpt2": GREEN}
LOW, HIGH, MOST = -2, 2, 35
"""Ranges of the axes: difference of BLEU, and BLEU before."""
WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 210, 46, 64, 46


def place(bleu: float, value: float) -> tuple[float, float]:
    """The position of a difference in its panel; values outside of the axis are drawn at its end."""
    return WIDTH * bleu / MOST, HEIGHT * (HIGH - min(max(value, LOW), HIGH)) / (HIGH - LOW)


def axes(x: float, corpus: str) -> list[str]:
    lines = [text(x, TOP - 12, corpus, 'font-weight="600"')]
    for value in range(LOW, HIGH + 1):
        _, y = place(0, value)
        strong = 0.6 if value == 0 else 0.15
        lines.append(f'<path d="M{x:g} {TOP + y:.1f}h{WIDTH}" stroke="currentColor" stroke-opacity="{strong}"/>')
        lines.append(text(x - 8, TOP + y + 4, f"{value:+d}" if value else "0", 'text-anchor="end" opacity="0.8"'))
    for bleu in range(0, MOST + 1, 5):
        lines.append(text(x + place(bleu, 0)[0], TOP + HEIGHT + 18, str(bleu), 'text-anchor="middle" opacity="0.8"'))
    return lines


def draw() -> str:
    found = groups(read_runs(RESULTS))
    corpora = list(dict.fromkeys(corpus for corpus, _, _ in found))
    parts, width = [], LEFT + len(corpora) * (WIDTH + GAP)
    for number, (architecture, name) in enumerate(NAMES.items()):
        parts.append(f'<circle cx="{LEFT + 6 + 90 * number}" cy="14" r="5" fill="{COLORS[architecture]}"/>')
        parts.append(text(LEFT + 16 + 90 * number, 19, name))
    parts.append(text(width - GAP, 19, "BLEU of the default minus BLEU of cross-entropy", 'text-anchor="end"'))
    for number, corpus in enumerate(corpora):
        x = LEFT + number * (WIDTH + GAP)
        parts += axes(x, corpus)
        parts.append(text(x + WIDTH / 2, TOP + HEIGHT + 38, "BLEU before", 'text-anchor="middle" opacity="0.8"'))
        for (own, architecture, bleu), runs in found.items():
            if own != corpus:
                continue
            color, values = COLORS[architecture], [difference(run) for run in runs]
            for value in values:
                dx, dy = place(bleu, value)
                parts.append(f'<circle cx="{x + dx:.1f}" cy="{TOP + dy:.1f}" r="2.5" fill="{color}" opacity="0.5"/>')
            dx, dy = place(bleu, fmean(values))
            parts.append(f'<path d="M{x + dx - 8:.1f} {TOP + dy:.1f}h16" stroke="{color}" stroke-width="3"/>')
    described = (
        "One panel per corpus. Small dots are single comparisons, bars their means for each model. The horizontal axis "
        "is BLEU before, the vertical axis BLEU of the default minus BLEU of cross-entropy after the same steps."
    )
    title = "The default compared with cross-entropy, by the quality of the model"
    return picture("qualities", (width, TOP + HEIGHT + 48), title, described, parts, font=13)


if __name__ == "__main__":
    save("qualities", draw())
