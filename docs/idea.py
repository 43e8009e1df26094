"""Draws the picture of the README and of the first page: from the distributions of one sentence to expected BLEU.

    python docs/idea.py

writes docs/_static/idea.svg and idea-dark.svg. All numbers in it come from a real call of the library.
"""

import torch
from drawing import BLUE, ORANGE, picture, save, text

import bleugrad

WORDS = "the cat sat on the mat".split()
LEFT, TOP, CELL, ROW = 86, 74, 54, 32
WIDTH, HEIGHT, SECOND = 860, 304, 440  # the second column begins at SECOND


def example() -> tuple[torch.Tensor, list[int], torch.Tensor]:
    """Logits of a partly trained model, the ids of the reference, and the match probabilities."""
    ids = {word: number for number, word in enumerate(dict.fromkeys(WORDS))}
    reference = [ids[word] for word in WORDS]
    generator = torch.Generator().manual_seed(6)
    logits = torch.randn(len(WORDS), 12, generator=generator, dtype=torch.float64)
    logits[range(len(WORDS)), reference] += 2.6
    return logits, reference, logits.softmax(-1)[:, reference]


def sampled(logits: torch.Tensor, reference: list[int], number: int = 20000) -> float:
    """E[BLEU], estimated from sampled hypotheses."""
    drawn = torch.multinomial(logits.softmax(-1), number, replacement=True, generator=torch.Generator().manual_seed(0))
    return bleugrad.bleu(drawn.T, [reference] * number, level="sentence").value.mean().item()


def matrix(probabilities: torch.Tensor) -> list[str]:
    lines = [
        text(20, 22, "1  P(position t emits reference word j)", 'font-weight="600"'),
        text(20, 42, "One gather from the softmax is all the loss needs.", 'opacity="0.8"'),
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
    """Outlines the reference's bigram that starts at a position and shows the product of its probabilities."""
    x, y = LEFT + CELL * start, TOP + ROW * start
    points = [(x, y), (x + CELL, y), (x + CELL, y + ROW), (x + 2 * CELL, y + ROW)]
    points += [(x + 2 * CELL, y + 2 * ROW), (x + CELL, y + 2 * ROW), (x + CELL, y + ROW), (x, y + ROW)]
    first, second = (probabilities[start + step, start + step].item() for step in (0, 1))
    path = " ".join(f"{x},{y}" for x, y in points)
    said = f"P(“{WORDS[start]} {WORDS[start + 1]}” here) = {first:.2f} x {second:.2f} = {first * second:.2f}"
    return [
        f'<polygon points="{path}" fill="none" stroke="{ORANGE}" stroke-width="2.5" stroke-linejoin="round"/>',
        text(LEFT, TOP + 6 * ROW + 20, said, f'fill="{ORANGE}"'),
    ]


def matches(result: bleugrad.ExpectedBLEUResult) -> list[str]:
    top = 38
    lines = [
        text(20, top - 16, "2  Expected matches, exact, by a recursion", 'font-weight="600"'),
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
    top, full = 218, 330
    low, high, value = result.lower.item(), result.upper.item(), result.value.item()
    at = lambda score: LEFT - 30 + full * score  # noqa: E731
    return [
        text(20, top - 32, "3  BLEU, its gradient and a certified interval", 'font-weight="600"'),
        f'<path d="M{at(0):g} {top}H{at(1):g}" stroke="currentColor" stroke-opacity="0.4" stroke-width="2"/>',
        f'<rect x="{at(low):.1f}" y="{top - 9}" width="{at(high) - at(low):.1f}" height="18" rx="3" fill="{BLUE}"/>',
        f'<circle cx="{at(drawn):.1f}" cy="{top}" r="5" fill="{ORANGE}" stroke="#fff" stroke-width="1.5"/>',
        text(at(0), top + 24, "0", 'text-anchor="middle" opacity="0.8"'),
        text(at(1), top + 24, "1", 'text-anchor="middle" opacity="0.8"'),
        text(at((low + high) / 2), top + 24, f"{low:.3f} to {high:.3f}", 'text-anchor="middle"'),
        text(20, top + 50, f"loss = 1 - {value:.3f}, differentiable in every logit;"),
        text(20, top + 70, f"20,000 samples give {drawn:.3f} (dot).", f'fill="{ORANGE}"'),
    ]


def draw() -> str:
    logits, reference, probabilities = example()
    result = bleugrad.expected_bleu(logits[None], [reference], level="sentence")
    second = [*matches(result), *interval(result, sampled(logits, reference))]
    parts = [*matrix(probabilities), f'<g transform="translate({SECOND} 0)">', *second, "</g>"]
    described = (
        "A matrix of the probabilities of each reference word at each position; the expected matches of orders 1 to 4 "
        "computed from it; and the interval that is certain to contain expected BLEU, with its sampled value inside."
    )
    return picture("idea", (WIDTH, HEIGHT), "From distributions to expected BLEU", described, parts)


if __name__ == "__main__":
    save("idea", draw())
