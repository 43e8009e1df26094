"""The picture of the README and of the first page, from real numbers: what a sentence's distributions come to.

    python docs/idea.py

writes docs/_static/idea.svg and idea-dark.svg.
"""

from html import escape
from pathlib import Path

import torch

import bleugrad

STATIC = Path(__file__).parent / "_static"
WORDS = "the cat sat on the mat".split()
INKS = {"idea.svg": "#1f2328", "idea-dark.svg": "#e6edf3"}
BLUE, ORANGE = "#2f7fd6", "#d9822b"
LEFT, TOP, CELL, ROW = 86, 74, 54, 32
WIDTH, HEIGHT = 440, 616


def example() -> tuple[torch.Tensor, list[int], torch.Tensor]:
    """Logits of a model that half knows the sentence, the reference's ids, and the match probabilities."""
    ids = {word: number for number, word in enumerate(dict.fromkeys(WORDS))}
    reference = [ids[word] for word in WORDS]
    generator = torch.Generator().manual_seed(6)
    logits = torch.randn(len(WORDS), 12, generator=generator, dtype=torch.float64)
    logits[range(len(WORDS)), reference] += 2.6
    return logits, reference, logits.softmax(-1)[:, reference]


def sampled(logits: torch.Tensor, reference: list[int], number: int = 20000) -> float:
    """E[BLEU] by drawing hypotheses."""
    drawn = torch.multinomial(logits.softmax(-1), number, replacement=True, generator=torch.Generator().manual_seed(0))
    return bleugrad.bleu(drawn.T, [reference] * number, smoothing=1.0).value.mean().item()


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" {more}>{escape(words)}</text>'


def matrix(probabilities: torch.Tensor) -> list[str]:
    lines = [
        text(20, 22, "1  P(position t says reference word j)", 'font-weight="600"'),
        text(20, 42, "One gather from the softmax: all that is needed.", 'opacity="0.8"'),
    ]
    for column, word in enumerate(WORDS):
        lines.append(text(LEFT + CELL * (column + 0.5), TOP - 8, word, 'text-anchor="middle" font-weight="600"'))
    for row, values in enumerate(probabilities.tolist()):
        lines.append(text(LEFT - 10, TOP + ROW * row + 21, f"t = {row + 1}", 'text-anchor="end" opacity="0.8"'))
        for column, value in enumerate(values):
            x, y = LEFT + CELL * column, TOP + ROW * row
            lines.append(
                f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{ROW - 2}" rx="3" fill="{BLUE}" '
                f'fill-opacity="{0.08 + 0.6 * value:.3f}"/>'
            )
            lines.append(text(x + CELL / 2, y + 21, f"{value:.2f}".removeprefix("0"), 'text-anchor="middle"'))
    return [*lines, *window(2, probabilities)]


def window(start: int, probabilities: torch.Tensor) -> list[str]:
    """A ring around the bigram that begins at a position, where the reference has it, and its product."""
    x, y = LEFT + CELL * start, TOP + ROW * start
    points = [(x, y), (x + CELL, y), (x + CELL, y + ROW), (x + 2 * CELL, y + ROW)]
    points += [(x + 2 * CELL, y + 2 * ROW), (x + CELL, y + 2 * ROW), (x + CELL, y + ROW), (x, y + ROW)]
    first, second = (probabilities[start + step, start + step].item() for step in (0, 1))
    path = " ".join(f"{x},{y}" for x, y in points)
    said = f"a window of “{WORDS[start]} {WORDS[start + 1]}”: {first:.2f} x {second:.2f} = {first * second:.2f}"
    return [
        f'<polygon points="{path}" fill="none" stroke="{ORANGE}" stroke-width="2.5" stroke-linejoin="round"/>',
        text(LEFT, TOP + 6 * ROW + 20, said, f'fill="{ORANGE}"'),
    ]


def matches(result: bleugrad.ExpectedBLEUResult) -> list[str]:
    top = 356
    lines = [
        text(20, top - 16, "2  Expected matches, exact by a recursion", 'font-weight="600"'),
    ]
    for order, (found, total) in enumerate(zip(result.matches[0].tolist(), result.totals[0].tolist(), strict=True)):
        y, full = top + 28 * order, 200
        lines += [
            text(LEFT - 10, y + 13, f"n = {order + 1}", 'text-anchor="end" opacity="0.8"'),
            f'<rect x="{LEFT}" y="{y}" width="{full}" height="18" rx="3" fill="currentColor" fill-opacity="0.1"/>',
            f'<rect x="{LEFT}" y="{y}" width="{full * found / total:.1f}" height="18" rx="3" fill="{BLUE}"/>',
            text(LEFT + full + 12, y + 14, f"{found:.2f} of {total:.0f}"),
        ]
    return lines


def interval(result: bleugrad.ExpectedBLEUResult, drawn: float) -> list[str]:
    top, full = 536, 330
    low, high, value = result.lower.item(), result.upper.item(), result.value.item()
    at = lambda score: LEFT - 30 + full * score  # noqa: E731
    return [
        text(20, top - 32, "3  BLEU of them, its gradient, and a certificate", 'font-weight="600"'),
        f'<path d="M{at(0):g} {top}H{at(1):g}" stroke="currentColor" stroke-opacity="0.4" stroke-width="2"/>',
        f'<rect x="{at(low):.1f}" y="{top - 9}" width="{at(high) - at(low):.1f}" height="18" rx="3" fill="{BLUE}"/>',
        f'<circle cx="{at(drawn):.1f}" cy="{top}" r="5" fill="{ORANGE}" stroke="#fff" stroke-width="1.5"/>',
        text(at(0), top + 24, "0", 'text-anchor="middle" opacity="0.8"'),
        text(at(1), top + 24, "1", 'text-anchor="middle" opacity="0.8"'),
        text(at((low + high) / 2), top + 24, f"{low:.3f} to {high:.3f}", 'text-anchor="middle"'),
        text(20, top + 50, f"loss = 1 - {value:.3f}, differentiable in every logit;"),
        text(20, top + 70, f"20,000 samples say {drawn:.3f} (dot).", f'fill="{ORANGE}"'),
    ]


def draw(ink: str) -> str:
    logits, reference, probabilities = example()
    result = bleugrad.expected_bleu(logits[None], [reference], level="sentence")
    parts = [*matrix(probabilities), *matches(result), *interval(result, sampled(logits, reference))]
    described = (
        "A matrix of the probabilities of each reference word at each position; the expected matches of orders 1 to 4 "
        "that follow from it; and the interval that is certain to hold expected BLEU, with its sampled value inside."
    )
    return "\n".join(
        [
            f'<svg class="idea" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" color="{ink}" '
            'fill="currentColor" font-family="system-ui, sans-serif" font-size="15" role="img">',
            f"<title>From distributions to expected BLEU</title><desc>{described}</desc>",
            *parts,
            "</svg>\n",
        ]
    )


def main() -> None:
    for name, ink in INKS.items():
        (STATIC / name).write_text(draw(ink), encoding="utf-8")


if __name__ == "__main__":
    main()
